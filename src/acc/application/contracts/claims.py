"""The context of a request: caller, ids, user and permissions, as its sender claims them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from acc.application.runtime.caller_rules import claimed_caller
from acc.application.runtime.context import RunContext
from acc.domain.contract_errors import FieldViolation, InvalidInputs
from acc.domain.errors import PermissionDenied
from acc.domain.value_objects.contract import is_same_caller
from acc.domain.value_objects.principal import Principal
from acc.domain.value_objects.run import DEBUG_PERMISSION

MAX_CONTEXT_BYTES = 16 * 1024
MAX_CLAIM_LENGTH = 256
_TEXT_CLAIMS = (
    "caller",
    "timestamp",
    "request_id",
    "trace_id",
    "user_id",
    "session_id",
    "on_behalf_of",
    "idempotency_key",
    "nonce",
)
#: Keys of a request context with a meaning; others are data of the caller.
CLAIMS = frozenset({*_TEXT_CLAIMS, "permissions", "debug_mode"})


def read_context(context: object, intent: str = "") -> dict[str, Any]:
    """Return a valid request context, or raise InvalidInputs that names the field."""
    if context is None:
        return {}
    violations: list[FieldViolation] = []
    if not isinstance(context, Mapping):
        violations.append(FieldViolation("", "type", "must be an object"))
        raise InvalidInputs(intent, violations, place="context")
    if violation := _size_violation(context):
        raise InvalidInputs(intent, [violation], place="context")
    for name in _TEXT_CLAIMS:
        if name in context and not _is_text(context[name]):
            text = f"must be a printable string of 1 to {MAX_CLAIM_LENGTH} characters"
            violations.append(FieldViolation(name, "type", text))
    if "timestamp" in context and not violations and not _is_time(context["timestamp"]):
        text = "must be a time in the format of RFC 3339, such as 2026-01-31T09:00:00Z"
        violations.append(FieldViolation("timestamp", "format", text))
    permissions = context.get("permissions", [])
    if not isinstance(permissions, list) or not all(isinstance(one, str) for one in permissions):
        violations.append(FieldViolation("permissions", "type", "must be a list of strings"))
    if not isinstance(context.get("debug_mode", False), bool):
        violations.append(FieldViolation("debug_mode", "type", "must be true or false"))
    if violations:
        raise InvalidInputs(intent, violations, place="context")
    return dict(context)


def _size_violation(context: Mapping[str, Any]) -> FieldViolation | None:
    try:
        size = len(msgspec.json.encode(context))
    except (TypeError, ValueError, RecursionError):
        return FieldViolation("", "type", "must be JSON data")
    if size <= MAX_CONTEXT_BYTES:
        return None
    return FieldViolation("", "maxLength", f"must have at most {MAX_CONTEXT_BYTES} bytes")


def check_caller(context: Mapping[str, Any], principal: Principal) -> None:
    """Raise PermissionDenied if a claimed caller is not the authenticated one.

    Without authentication there is no verified caller that could contradict the claim.
    """
    claimed = context.get("caller")
    if claimed is None or principal.is_anonymous or is_same_caller(claimed, principal.caller):
        return
    raise PermissionDenied(
        f"the context names the caller {claimed!r}, but the credentials are those of "
        f"{principal.caller!r}; send that name, or omit context.caller"
    )


def check_debug(context: Mapping[str, Any], principal: Principal) -> None:
    """Raise PermissionDenied if debug mode is requested without the permission `debug`.

    Otherwise the caller would not notice that tools are called.
    """
    own = principal.permissions
    granted = effective_permissions(context, None if own is None else frozenset(own))
    if context.get("debug_mode") and granted is not None and DEBUG_PERMISSION not in granted:
        raise PermissionDenied(
            f"debug_mode requires the permission {DEBUG_PERMISSION!r}, which {principal.caller!r} "
            "does not have; omit context.debug_mode, or request the permission"
        )


def effective_permissions(
    context: Mapping[str, Any], granted: frozenset[str] | None
) -> frozenset[str] | None:
    """Return the permissions of a call: the claimed ones, as far as they are granted."""
    if "permissions" not in context:
        return granted
    claimed = frozenset(context["permissions"])
    return claimed if granted is None else claimed & granted


def outgoing_context(ctx: RunContext, *, has_credentials: bool) -> dict[str, Any]:
    """Return the context for a call of another agent during a run.

    The credentials name the caller, if there are any. The call has at most the permissions of this
    one.
    """
    call = ctx.call
    context: dict[str, Any] = {
        "request_id": call.request_id,
        "trace_id": call.trace_id,
        "on_behalf_of": claimed_caller(call),
    }
    if not has_credentials:
        context["caller"] = f"agent://{ctx.run.request.root.name}"
    if ctx.identity and "user_id" in call.claims:
        context["user_id"] = call.claims["user_id"]
    context = {name: text for name, text in context.items() if _is_text(text)}
    if call.permissions is not None:
        context["permissions"] = sorted(call.permissions)
    return context


def _is_text(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_CLAIM_LENGTH and value.isprintable()


def _is_time(value: str) -> bool:
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True
