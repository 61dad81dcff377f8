"""Limits, call context, grants and status of a run."""

import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from acc.domain.call_options import check_call, explains_call
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.base import (
    ExplainedEnum,
    ExplainedMeta,
    JsonData,
    Value,
    set_field,
)
from acc.domain.value_objects.contract import INTENTS_EXTENSION

Stub = str | Callable[[Any], str | Awaitable[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """The limits of one run, which all agents of the run share.

    `stubs` replace the named agents and tools, and `debug=True` replaces every tool and every agent
    that another one delegates to. `raise_tool_errors=True` ends the run if the code of a tool
    raises an exception, instead of reporting it to the model. `snapshots` shows the state before
    and after each agent.
    `max_prompt_tokens` limits each model request: older tool results of the turn are shortened, and
    the model can read them with a tool. `record_prompts` records the exact request of each model
    call.
    """

    max_llm_calls: int = 100
    max_tool_calls: int = 200
    max_hops: int = 6
    max_repairs: int = 3
    max_tool_retries: int = 5
    token_budget: int | None = None
    timeout: float | None = None
    tool_timeout: float | None = 120.0
    approval_ttl: float | None = None
    max_answer_characters: int = 1_000_000
    max_prompt_tokens: int = 64_000
    raise_tool_errors: bool = False
    record_prompts: bool = False
    snapshots: bool = False
    debug: bool = False
    stubs: Mapping[str, Stub] = field(default_factory=dict)

    if not TYPE_CHECKING:

        def __new__(cls, *arguments: object, **options: object) -> "RunConfig":
            """Raise InvalidInput for options that the class does not have."""
            check_call(cls, arguments, options, hints=_CONFIG_HINTS)
            return object.__new__(cls)

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name in _NOT_NUMBERS or (value is None and item.name in _OPTIONAL):
                continue
            minimum = 0 if item.name in _MAY_BE_ZERO else 1e-9
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            is_whole = item.name not in _MAY_BE_FRACTIONS
            is_valid = is_number and (isinstance(value, int) or not is_whole)
            if not is_valid or not value >= minimum:  # also false for nan
                bound = "at least 0" if minimum == 0 else "greater than 0"
                kind = "" if is_valid else "an integer and " if is_whole else "a number and "
                raise InvalidInput(f"RunConfig.{item.name} must be {kind}{bound}, got {value!r}")
        for name in ("raise_tool_errors", "record_prompts", "snapshots", "debug"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidInput(f"RunConfig.{name} must be a bool, got {getattr(self, name)!r}")
        stubs = self.stubs.values() if isinstance(self.stubs, Mapping) else (None,)
        if not all(isinstance(stub, str) or callable(stub) for stub in stubs):
            raise InvalidInput(
                "RunConfig.stubs must map names of agents and tools to texts or functions, got "
                f"{self.stubs!r}"
            )


#: Options by the names that other libraries have for them.
_CONFIG_HINTS = {
    "max_turns": "max_llm_calls",
    "max_steps": "max_llm_calls",
    "max_iterations": "max_llm_calls",
    "max_tokens": "token_budget",
    "max_retries": "max_repairs",
    "max_handoffs": "max_hops",
}
_TRACE_PARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-[0-9a-f]{2}"
)
_MAY_BE_ZERO = frozenset({"max_hops", "max_tool_calls", "max_repairs", "max_tool_retries"})
#: Seconds.
_MAY_BE_FRACTIONS = frozenset({"timeout", "tool_timeout", "approval_ttl"})
_OPTIONAL = frozenset({"token_budget", "timeout", "tool_timeout", "approval_ttl"})
_NOT_NUMBERS = frozenset({"raise_tool_errors", "record_prompts", "snapshots", "debug", "stubs"})


#: The permission of callers that may request debug mode.
DEBUG_PERMISSION = "debug"


def trace_of_parent(parent: str) -> str:
    """Return the trace id of a W3C traceparent, an empty string if it is invalid."""
    match = _TRACE_PARENT.fullmatch(parent)
    if match is None or not match["trace"].strip("0") or not match["span"].strip("0"):
        return ""
    return match["trace"]


class CallContext(Value, frozen=True, kw_only=True, metaclass=ExplainedMeta):
    """The caller of a run, its permissions, and the ids for tracing.

    `message_id` and `metadata` are those of the A2A message that started the run, if any. `account`
    is whose limits apply, by default those of the user; it is not stored.
    """

    request_id: str
    trace_id: str
    caller: str
    permissions: Collection[str] | None = None
    message_id: str = ""
    metadata: Mapping[str, JsonData] = {}
    account: str = ""

    def __post_init__(self) -> None:
        ids = (self.request_id, self.trace_id, self.caller, self.message_id)
        try:
            joined = "".join(ids)
            if not joined.isascii():
                joined.encode()  # raises an error for unpaired surrogates
        except (TypeError, UnicodeEncodeError):
            raise InvalidInput(
                f"request_id, trace_id, caller and message_id must be valid str, got {ids!r}"
            ) from None
        if self.permissions is not None and not isinstance(self.permissions, frozenset):
            set_field(self, "permissions", _names("permissions", self.permissions))

    @property
    def claims(self) -> Mapping[str, JsonData]:
        """Return the context that the sender of the request claims, such as `user_id`."""
        entry = self.metadata.get(INTENTS_EXTENSION)
        context = entry.get("context") if isinstance(entry, Mapping) else None
        return context if isinstance(context, Mapping) else {}

    @property
    def requests_debug(self) -> bool:
        """Return True if the sender asks for debug mode and has the permission `debug`."""
        return self.allows(DEBUG_PERMISSION) and self.claims.get("debug_mode") is True

    def allows(self, permission: str) -> bool:
        """Return True if a permission is granted; None grants all of them."""
        return self.permissions is None or permission in self.permissions


@explains_call()
@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What a parent agent grants to a sub-agent.

    `read` and `write` are patterns of state keys such as `doc_*`, `artifacts` of file names. A
    pattern that begins with `!` excludes: `("*", "!payment.card_*")`.
    Permissions can only be reduced. Without `history` a sub-agent sees neither the memory nor
    earlier messages.
    """

    read: Sequence[str] = ("*",)
    write: Sequence[str] = ("*",)
    artifacts: Sequence[str] = ("*",)
    permissions: Collection[str] | None = None
    history: bool = True
    identity: bool = True

    def __post_init__(self) -> None:
        for name in ("read", "write", "artifacts"):
            patterns = tuple(sorted(_names(name, getattr(self, name))))
            if patterns and all(pattern.startswith("!") for pattern in patterns):
                raise InvalidInput(
                    f'{name} has only exclusions, so that it grants nothing; add "*", got '
                    f"{patterns!r}"
                )
            object.__setattr__(self, name, patterns)
        if self.permissions is not None:
            object.__setattr__(self, "permissions", _names("permissions", self.permissions))


def _names(what: str, names: object) -> frozenset[str]:
    """Return names as a set; a str is rejected because it would be a set of letters."""
    if isinstance(names, str) or not isinstance(names, Collection):
        raise InvalidInput(f'{what} must be a list of names, such as ("{names}",), got {names!r}')
    if not all(isinstance(name, str) for name in names):
        raise InvalidInput(f"{what} must contain only str, got {names!r}")
    return frozenset(names)


class RunStatus(ExplainedEnum):
    """The status of a run. A run whose process died stays `working` until the next turn."""

    WORKING = "working"
    INPUT_REQUIRED = "input_required"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"
    REJECTED = "rejected"
