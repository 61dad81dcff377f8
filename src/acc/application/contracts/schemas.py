"""Contracts from declared fields, types, functions and agents."""

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, ClassVar, TypedDict

import msgspec

from acc.application.agents.base import BaseAgent, StandardAgent
from acc.application.agents.function import FunctionAgent
from acc.application.runtime.json_types import decode_model, json_schema, to_builtins
from acc.application.tools.function_tool import FunctionTool, parse_docstring
from acc.domain.contract_errors import FieldViolation
from acc.domain.errors import InvalidInput, InvalidTree
from acc.domain.value_objects.contract import ANY_OBJECT, IntentContract
from acc.ports.outbound.system_ports import SchemaValidatorPort

#: Stands for a field without a default.
NO_DEFAULT: Any = msgspec.UNSET
#: The output of an agent that answers with text.
TEXT_OUTPUT: Mapping[str, Any] = {
    "type": "object",
    "properties": {"text": {"type": "string", "description": "The answer"}},
    "required": ["text"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the inputs or outputs of an intent.

    `type` is a type that JSON can represent: `str`, `list[int]`, `Literal["short", "long"]`, a
    dataclass. A field with a default is not required.
    """

    type: Any = Any
    required: bool | None = None
    default: Any = NO_DEFAULT
    description: str = ""

    @property
    def is_required(self) -> bool:
        """Return True if the field must be present."""
        return self.default is NO_DEFAULT if self.required is None else self.required

    @property
    def accepted_type(self) -> Any:
        """Return the type of values; None is one of them if it is the default."""
        return self.type | None if self.default is None else self.type

    def to_schema(self) -> dict[str, Any]:
        """Return the JSON schema of the field; ValueError if its default is not of its type."""
        schema = json_schema(self.accepted_type)
        if self.description:
            schema["description"] = self.description
        if self.default is not NO_DEFAULT:
            schema["default"] = to_builtins(self.default)
            if _find_mismatch(self.accepted_type, schema["default"]) is not None:
                raise ValueError(f"the default {self.default!r} does not match the type")
        return schema


class ToolSchema:
    """The contract of a node, as class attributes of a subclass.

    Example::

        class SummarizeTextSchema(ToolSchema):
            name = "summarize_text"
            description = "Summarizes a text."
            inputs = {"text": Field(type=str, description="The text")}
            outputs = {"summary": Field(type=str, description="The summary")}

    Without `inputs` or `outputs` every object is accepted. `reads` and `writes` are patterns of
    the memory keys that a node uses; None means all keys.
    """

    name: ClassVar[str] = ""
    description: ClassVar[str] = ""
    inputs: ClassVar[Mapping[str, Field] | None] = None
    outputs: ClassVar[Mapping[str, Field] | None] = None
    reads: ClassVar[Sequence[str] | None] = None
    writes: ClassVar[Sequence[str] | None] = None
    context: ClassVar[Sequence[str]] = ()
    permissions: ClassVar[Sequence[str]] = ()
    idempotent: ClassVar[bool] = False

    @classmethod
    def contract(cls, *, name: str = "", description: str = "") -> IntentContract:
        """Return the contract; `name` and `description` are used if the class has none."""
        try:
            return IntentContract(
                name=cls.name or name,
                description=cls.description or description,
                input_schema=object_schema(cls.inputs),
                output_schema=object_schema(cls.outputs),
                reads=("*",) if cls.reads is None else tuple(cls.reads),
                writes=("*",) if cls.writes is None else tuple(cls.writes),
                context=tuple(cls.context),
                permissions=tuple(cls.permissions),
                idempotent=cls.idempotent,
            )
        except (TypeError, ValueError) as error:
            raise InvalidTree(f"{cls.__name__}: {error}") from None


def object_schema(declared: Any) -> Mapping[str, Any]:
    """Return the JSON schema of an object.

    `declared` is a mapping of names to `Field`, a JSON schema, a dataclass, a TypedDict, a
    msgspec.Struct, a pydantic model, or None for any object. Fields that are not declared are
    rejected, unless a JSON schema allows them.
    """
    if declared is None:
        return ANY_OBJECT
    if isinstance(declared, Mapping):
        if all(isinstance(field, Field) for field in declared.values()):
            return _schema_of_fields(declared)
        if "type" not in declared and "properties" not in declared:
            raise InvalidInput("expected a JSON schema of an object, or names with Field(...)")
        return declared
    try:
        schema = json_schema(declared)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"no JSON schema for {declared!r}: {error}") from None
    definitions = dict(schema.pop("$defs", {}))
    if set(schema) == {"$ref"}:
        schema = definitions.pop(str(schema["$ref"]).removeprefix("#/$defs/"))
    if schema.get("type") != "object":
        raise InvalidInput(f"{declared!r} is not a type with fields; use a dataclass or Field(...)")
    schema = {"additionalProperties": False, **schema}
    if definitions:
        schema["$defs"] = definitions
    return schema


def _schema_of_fields(fields: Mapping[str, Field]) -> Mapping[str, Any]:
    definitions: dict[str, Any] = {}
    properties: dict[str, Any] = {}
    for name, field in fields.items():
        try:
            schema = field.to_schema()
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"field {name!r}: {error}") from None
        definitions |= schema.pop("$defs", {})
        properties[name] = schema
    result: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "required": [name for name, field in fields.items() if field.is_required],
        "additionalProperties": False,
    }
    if definitions:
        result["$defs"] = definitions
    return result


def contract_of_function(
    function: Callable[..., Any], *, name: str = "", description: str = ""
) -> IntentContract:
    """Return the contract of a typed function: its parameters are the input fields.

    If the result type is a type with fields, it declares the outputs; otherwise the output is the
    field `result`.
    """
    tool = FunctionTool(function, name=name.replace(".", "_"), description=description)
    hints = typing.get_type_hints(function)
    returned = hints.get("return", Any)
    return IntentContract(
        name=name or tool.name,
        description=tool.description,
        input_schema={"additionalProperties": False, **tool.spec.parameters},
        output_schema=_result_schema(returned),
        reads=("*",),
        writes=("*",),
    )


def is_type_with_fields(declared: Any) -> bool:
    """Return True for a type such as a dataclass, whose fields are those of an object."""
    if declared is Any or declared is None or isinstance(declared, Mapping):
        return False
    try:
        return "properties" in object_schema(declared)
    except InvalidInput:
        return False


def has_result_field(returned: Any) -> bool:
    """Return True if a result of this type is put into the output field `result`."""
    if returned is dict or typing.get_origin(returned) is dict:
        return False
    try:
        object_schema(returned)
    except InvalidInput:
        return True
    return False


def _result_schema(returned: Any) -> Mapping[str, Any]:
    if returned is dict or typing.get_origin(returned) is dict:
        return ANY_OBJECT
    if not has_result_field(returned):
        return object_schema(returned)
    return object_schema({"result": Field(type=Any if returned is None else returned)})


def type_of_inputs(declared: Any) -> Any:
    """Return the type of inputs that are declared as in `object_schema`; None for a JSON schema."""
    if not isinstance(declared, Mapping):
        return declared
    if not declared or not all(isinstance(field, Field) for field in declared.values()):
        return None
    return TypedDict(  # type: ignore[operator] # the names are known at run time
        "Inputs", {name: field.accepted_type for name, field in declared.items()}, total=False
    )


def type_of_parameters(function: Callable[..., Any]) -> Any:
    """Return the type of the inputs of a function that takes them as arguments."""
    hints = typing.get_type_hints(function, include_extras=True)
    types = {
        name: hints[name] | None if parameter.default is None else hints[name]
        for name, parameter in inspect.signature(function).parameters.items()
    }
    return TypedDict("Inputs", types, total=False)  # type: ignore[operator] # as above


def convert_inputs(inputs: Mapping[str, Any], declared: Any) -> Any:
    """Return inputs as a declared type; msgspec.ValidationError if they are not valid for it."""
    try:
        return msgspec.convert(inputs, declared, str_keys=True, dec_hook=decode_model)
    except msgspec.ValidationError:
        # In JSON schemas 2.0 is an integer.
        return msgspec.convert(inputs, declared, str_keys=True, dec_hook=decode_model, strict=False)


def check_type(declared: Any, inputs: Mapping[str, Any]) -> tuple[FieldViolation, ...]:
    """Return what a declared type rejects although its JSON schema does not, such as a bad date."""
    error = None if declared is None else _find_mismatch(declared, inputs)
    if error is None:
        return ()
    text, _, path = str(error).partition(" - at `$")
    names = [path.removesuffix("`").removeprefix(".")]
    cause = error.__cause__
    if cause is not None:  # text of a validator, which may contain the value
        text = "does not match its type"
        errors = getattr(cause, "errors", None)
        found = errors() if callable(errors) else ()
        names += [str(one) for one in found[0]["loc"]] if found else ()
    else:
        text = f"is not valid: {text[:1].lower()}{text[1:]}"
    return (FieldViolation(".".join(filter(None, names)), "type", text),)


def _find_mismatch(declared: Any, value: Any) -> msgspec.ValidationError | None:
    try:
        convert_inputs(value, declared)
    except msgspec.ValidationError as error:
        return error
    return None


def contract_of_agent(agent: BaseAgent) -> IntentContract | None:
    """Return the contract that an agent declares, or None.

    An agent declares one with `contract`, or with `input_schema` and optionally `output_schema`.
    Without the latter, a result type of `run` that has fields declares the outputs, and a `run`
    without annotation may return any object, or a text.
    """
    contract = getattr(agent, "contract", None)
    if isinstance(contract, IntentContract):
        return contract
    declared = getattr(agent, "input_schema", None)
    if declared is None:
        return None
    output = getattr(agent, "output_schema", None)
    return IntentContract(
        name=agent.name,
        description=agent.description,
        input_schema=object_schema(declared),
        output_schema=_answer_schema(agent) if output is None else _result_schema(output),
        reads=("*",),
        writes=("*",),
    )


def _answer_schema(agent: BaseAgent) -> Mapping[str, Any]:
    """Return the schema of the outputs of an agent that declares none."""
    if isinstance(agent, StandardAgent) and not isinstance(agent, FunctionAgent):
        return TEXT_OUTPUT
    run: Any = agent.function if isinstance(agent, FunctionAgent) else type(agent).run
    try:
        returned = typing.get_type_hints(run, include_extras=True).get("return", Any)
    except (NameError, TypeError):  # a type that exists only for type checkers, or no function
        returned = Any
    present = [one for one in typing.get_args(returned) if one is not NoneType]
    if len(present) == 1 and typing.get_origin(returned) in (typing.Union, UnionType):
        (returned,) = present
    if returned is Any:
        return ANY_OBJECT
    return TEXT_OUTPUT if has_result_field(returned) else _result_schema(returned)


def with_defaults(contract: IntentContract, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return inputs with the defaults of the fields that are missing."""
    defaults = {
        name: field["default"]
        for name, field in contract.input_fields.items()
        if "default" in field and name not in inputs
    }
    return {**inputs, **defaults}


def check_fields(
    schemas: SchemaValidatorPort, schema: Mapping[str, Any], value: object
) -> tuple[FieldViolation, ...]:
    """Return the violations of a trusted schema; a value that is not an object is one."""
    if not isinstance(value, Mapping):
        return (FieldViolation("", "type", f"must be an object, got {type(value).__name__}"),)
    unnamed = next((key for key in value if not isinstance(key, str)), None)
    if unnamed is not None:
        return (FieldViolation("", "type", "must have names that are strings"),)
    return schemas.violations(schema, dict(value), is_trusted=True)


def description_of(target: object) -> str:
    """Return the docstring of a function or class without its arguments."""
    return parse_docstring(inspect.getdoc(target) or "")[0]
