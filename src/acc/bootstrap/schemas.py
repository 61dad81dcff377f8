"""Validation with JSON schemas, whose library is imported on first use."""

from collections.abc import Mapping
from typing import Any

from acc.domain.contract_errors import FieldViolation


class LazySchemaValidator:
    """Imports the JSON schema library on first use."""

    def schema_error(self, schema: Mapping[str, Any], value: Any) -> str:
        """Return what is invalid in a value, or an empty string if it is valid."""
        from acc.adapters.system.json_schema import JsonSchemaValidator

        return JsonSchemaValidator().schema_error(schema, value)

    def violations(
        self, schema: Mapping[str, Any], value: Any, *, is_trusted: bool = False
    ) -> tuple[FieldViolation, ...]:
        """Return the fields of a value that violate a schema, without their values."""
        from acc.adapters.system.json_schema import JsonSchemaValidator

        return JsonSchemaValidator().violations(schema, value, is_trusted=is_trusted)
