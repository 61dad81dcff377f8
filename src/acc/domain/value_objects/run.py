"""What a run may spend, what it carries along, and what a parent grants to a worker."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

from acc.domain.errors import InvalidInput
from acc.domain.value_objects.base import Value, set_field

Stub = str | Callable[[Any], str | Awaitable[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """The limits of one run; everything it delegates draws on the same budget.

    `stubs` answer in place of the named agents, and `debug=True` in place of every agent that
    something is delegated to. `snapshots` shows the state before and after each agent.
    """

    max_llm_calls: int = 100
    max_tool_calls: int = 200
    max_hops: int = 6
    max_repairs: int = 3
    token_budget: int | None = None
    timeout: float | None = None
    tool_timeout: float | None = 120.0
    approval_ttl: float | None = None
    max_answer_characters: int = 1_000_000
    snapshots: bool = False
    debug: bool = False
    stubs: Mapping[str, Stub] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name in _OTHERS or (value is None and item.name in _MAY_BE_ABSENT):
                continue
            least = 0 if item.name in _MAY_BE_ZERO else 1e-9
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not is_number or not value >= least:  # which nan is not either
                raise InvalidInput(f"{item.name} cannot be {value!r}")
        for name in ("snapshots", "debug"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidInput(f"{name} cannot be {getattr(self, name)!r}")
        found = self.stubs.values() if isinstance(self.stubs, Mapping) else (None,)
        if not all(isinstance(one, str) or callable(one) for one in found):
            raise InvalidInput(
                f"stand_ins maps names of agents to texts or functions, unlike {self.stubs!r}"
            )


_MAY_BE_ZERO = frozenset({"max_hops", "max_tool_calls", "max_repairs"})
_MAY_BE_ABSENT = frozenset({"token_budget", "timeout", "tool_timeout", "approval_ttl"})
_OTHERS = frozenset({"snapshots", "debug", "stubs"})


class CallContext(Value, frozen=True, kw_only=True):
    """What travels through every call of a run: who asks, and how to follow it.

    `message_id` and `metadata` are those of the message that began the run, if it came from afar.
    """

    request_id: str
    trace_id: str
    caller: str
    permissions: Collection[str] | None = None
    message_id: str = ""
    metadata: Mapping[str, Any] = {}

    def __post_init__(self) -> None:
        told = (self.request_id, self.trace_id, self.caller, self.message_id)
        try:
            joined = "".join(told)
            if not joined.isascii():
                joined.encode()  # half a character cannot be written down
        except (TypeError, UnicodeEncodeError):
            raise InvalidInput(f"a call is told apart by texts, not by {told!r}") from None
        if self.permissions is not None and not isinstance(self.permissions, frozenset):
            set_field(self, "permissions", _names("permissions", self.permissions))

    def allows(self, permission: str) -> bool:
        """Tell whether a permission is held; None holds all of them."""
        return self.permissions is None or permission in self.permissions


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """The part of its own context that a parent lets a worker have.

    `read` and `write` are patterns of state keys such as `doc_*`, `artifacts` of names of files.
    Permissions can only become fewer. Without `history` a worker sees neither the memory nor what
    others said before it.
    """

    read: Sequence[str] = ("*",)
    write: Sequence[str] = ("*",)
    artifacts: Sequence[str] = ("*",)
    permissions: Collection[str] | None = None
    history: bool = True
    identity: bool = True

    def __post_init__(self) -> None:
        for name in ("read", "write", "artifacts"):
            object.__setattr__(self, name, tuple(sorted(_names(name, getattr(self, name)))))
        if self.permissions is not None:
            object.__setattr__(self, "permissions", _names("permissions", self.permissions))


def _names(what: str, given: object) -> frozenset[str]:
    """Return names as a set; a text that was meant as a list of one would mean its letters."""
    if isinstance(given, str) or not isinstance(given, Collection):
        raise InvalidInput(f'{what} takes several names, such as ("{given}",), not {given!r}')
    if not all(isinstance(name, str) for name in given):
        raise InvalidInput(f"{what} takes texts, not {given!r}")
    return frozenset(given)


class RunStatus(StrEnum):
    """Where a run stands. A run that was killed is found as `working` and closed as failed."""

    WORKING = "working"
    INPUT_REQUIRED = "input_required"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"
    REJECTED = "rejected"
