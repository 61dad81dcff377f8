"""What the callers of a root agent may access: grants by caller, and a filter of the state."""

import inspect
from collections.abc import Mapping, MutableMapping
from functools import partial

from acc.application.runtime.state import State, StateView, matches_patterns, matching_rule
from acc.domain.call_options import accepts
from acc.domain.contract_errors import FieldViolation, InvalidInputs
from acc.domain.errors import InvalidInput, InvalidTree, PermissionDenied
from acc.domain.value_objects.base import JsonData
from acc.domain.value_objects.principal import ANONYMOUS, SERVER_PREFIXES
from acc.domain.value_objects.run import CallContext, Grant

_EVERYTHING = Grant()
_NOTHING = Grant(read=(), write=(), artifacts=(), permissions=(), history=False, identity=False)


class CallerRules:
    """The methods of an agent that restrict what its callers may do and see."""

    name: str
    callers: Mapping[str, Grant] | None

    def authorize_call(self, intent: str, caller: str) -> bool:
        """Return True if a caller of a served agent may use an intent; override to restrict it.

        `caller` is the authenticated caller. A rejected call gets 403, and nothing is stored.
        """
        return True

    def filter_memory(self, memory: dict[str, JsonData], caller: str) -> Mapping[str, JsonData]:
        """Return the state that a run of a caller may read; override in a root agent.

        It is called with one entry of the state at a time, whenever the run reads that entry.
        """
        return memory

    @property
    def has_memory_filter(self) -> bool:
        """Return True if the class overrides `filter_memory`."""
        return type(self).filter_memory is not CallerRules.filter_memory


def check_caller_rules(agent: CallerRules) -> None:
    """Raise InvalidTree if an agent declares rules that are invalid or that never apply."""
    where = f"agent {agent.name!r}"
    select, callers = agent.filter_memory, agent.callers
    if inspect.iscoroutinefunction(select) or not accepts(select, 2):
        raise InvalidTree(f"{where}: write def filter_memory(self, memory, caller), without async")
    if callers is None:
        return
    is_mapping = isinstance(callers, Mapping) and bool(callers)
    if not is_mapping or not all(isinstance(name, str) and name for name in callers):
        raise InvalidTree(
            f"{where}: callers must map names or patterns of callers to Grant, such as "
            f'{{"agent://audit_*": Grant(read=("summary.*",)), "*": Grant()}}, got {callers!r}'
        )
    for name, grant in callers.items():
        if not isinstance(grant, Grant):
            raise InvalidTree(f"{where}: callers[{name!r}] must be a Grant, got {grant!r}")
        if (earlier := matching_rule(callers, name)) != name:
            raise InvalidTree(
                f"{where}: callers[{name!r}] never applies, because {earlier!r} comes first and "
                f"matches it; declare {earlier!r} after it"
            )


def caller_grant(agent: CallerRules, caller: str) -> Grant:
    """Return what a caller may access: nothing if callers are declared and none matches."""
    if agent.callers is None:
        return _EVERYTHING
    rule = matching_rule(agent.callers, caller_name(caller))
    return _NOTHING if rule is None else agent.callers[rule]


def filtered_state(
    agent: CallerRules, state: MutableMapping[str, JsonData], caller: str
) -> MutableMapping[str, JsonData]:
    """Return the state as `filter_memory` of an agent shows it to a caller."""
    if not agent.has_memory_filter:
        return state
    return StateView(state, select=partial(_select, agent, caller_name(caller)))


def readable_state(
    agent: CallerRules, state: Mapping[str, JsonData], caller: str
) -> dict[str, JsonData]:
    """Return a copy of the part of a state that a caller may read."""
    values = state.copy() if isinstance(state, State) else dict(state)
    return dict(StateView(filtered_state(agent, values, caller), caller_grant(agent, caller).read))


def check_granted_memory(
    agent: CallerRules, intent: str, memory: Mapping[str, JsonData], caller: str
) -> None:
    """Raise InvalidInputs if a caller must not set a memory key, because of its grant."""
    granted = caller_grant(agent, caller).write
    violations = [
        FieldViolation(key[:100], "denied", "cannot be set by this caller")
        for key in memory
        if not matches_patterns(granted, key)
    ]
    if violations:
        raise InvalidInputs(intent, violations, place="memory")


def check_same_rules(agent: CallerRules, starter: str, caller: str) -> None:
    """Raise PermissionDenied if a caller resumes a run of a caller with another grant.

    The recorded steps, which are replayed, may contain what only the first caller may read.
    """
    if caller_name(starter) == caller_name(caller):
        return
    if agent.has_memory_filter or caller_grant(agent, starter) != caller_grant(agent, caller):
        raise PermissionDenied(
            f"{caller!r} cannot resume a run of {starter!r}, which has another grant in the "
            f"callers of {agent.name!r}: resume it as {starter!r}, or without a context"
        )


def claimed_caller(call: CallContext) -> str:
    """Return who calls: the name in the credentials, or without credentials the claimed one.

    A server accepts other spellings of the name, which rules by caller would not recognise.
    """
    name = caller_name(call.caller)
    if call.caller.startswith(SERVER_PREFIXES) and name != ANONYMOUS.caller:
        return name
    return str(call.claims.get("caller", name))


def caller_name(caller: str) -> str:
    """Return the caller of a run as the owner declares it: the name in its credentials."""
    for prefix in SERVER_PREFIXES:
        if caller.startswith(prefix):
            user_id = caller.removeprefix(prefix)
            return user_id.partition("/")[2] if "/" in user_id else user_id
    return caller


def _select(agent: CallerRules, caller: str, entry: dict[str, JsonData]) -> Mapping[str, JsonData]:
    shown = agent.filter_memory(entry, caller)
    if not isinstance(shown, Mapping):
        raise InvalidInput(
            f"filter_memory of agent {agent.name!r} must return a mapping, got "
            f"{type(shown).__name__}"
        )
    return shown
