"""Labels of tools, and decisions of the information-flow policy."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from acc.domain.call_options import explains_call
from acc.domain.errors import InvalidTree
from acc.domain.value_objects.base import JsonData

Effect = Literal["none", "write", "destructive"]
EFFECTS = ("none", "write", "destructive")
FlowMode = Literal["strict", "ask", "off"]
FLOW_MODES = ("strict", "ask", "off")
#: Metadata of a part: the agent that wrote it had read untrusted data.
UNTRUSTED_METADATA = "acc.untrusted"
#: Metadata of such a part: its sentences and addresses that are nevertheless words of the user.
TRUSTED_METADATA = "acc.trusted"
MAX_TRUSTED_FRAGMENTS = 100


@explains_call()
@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLabels:
    """What a tool does with data, for the information-flow policy of an agent.

    `target` names parameters that say where data or money goes or what grants access: addresses,
    URLs, accounts, passwords. `ref` names parameters that identify something that a result issued.
    `name` names parameters that consist of words of the user. Other parameters are free text. A
    field of a parameter is written `attachments.file_id`. If `target` is None, all parameters of a
    write tool that are neither `ref` nor `name` are targets. Results are untrusted unless `trusted`
    is True. A `secret` result is read only if the words of the user require it.
    """

    effect: Effect = "write"
    target: Sequence[str] | None = None
    ref: Sequence[str] = ()
    name: Sequence[str] = ()
    trusted: bool = False
    secret: bool = False

    def __post_init__(self) -> None:
        if self.effect not in EFFECTS:
            raise InvalidTree(f"effect must be one of {', '.join(EFFECTS)}, got {self.effect!r}")
        for option in ("target", "ref", "name"):
            names = getattr(self, option)
            if names is None:
                continue
            is_list = isinstance(names, Sequence) and not isinstance(names, str)
            if not is_list or not all(isinstance(item, str) and item for item in names):
                raise InvalidTree(
                    f'{option} must be a tuple of parameter names, such as ("{option}",), '
                    f"got {names!r}"
                )
            object.__setattr__(self, option, tuple(names))
        for option in ("trusted", "secret"):
            if not isinstance(getattr(self, option), bool):
                raise InvalidTree(f"{option} must be True or False, got {getattr(self, option)!r}")

    @property
    def is_write(self) -> bool:
        """Return True if the tool changes something."""
        return self.effect != "none"

    @property
    def is_checked(self) -> bool:
        """Return True if the policy decides about calls of the tool."""
        return self.is_write or self.secret or bool(self.target)

    def role_of(self, path: str) -> "ParameterRole":
        """Return the role of a parameter or of a field in it, such as `attachments.file_id`."""
        for role, names in (
            (ParameterRole.REF, self.ref),
            (ParameterRole.NAME, self.name),
            (ParameterRole.TARGET, self.target or ()),
        ):
            if any(path == item or path.startswith(f"{item}.") for item in names):
                return role
        if self.target is None and self.is_write:
            return ParameterRole.TARGET
        return ParameterRole.TEXT


#: The labels of a tool without a declaration.
UNDECLARED = ToolLabels()


class ParameterRole(StrEnum):
    """What a parameter of a tool is to the policy."""

    TARGET = "target"
    REF = "ref"
    NAME = "name"
    TEXT = "text"


class FlowRule(StrEnum):
    """The rule that a call violates."""

    PLAN = "plan"
    TARGET = "target"
    REF = "ref"
    NAME = "name"
    TEXT = "text"
    SECRET = "secret"  # noqa: S105 - the name of a rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """Why a call needs a person: the rule, the parameter, its value and where that came from."""

    rule: FlowRule
    parameter: str = ""
    value: str = ""
    origin: str = ""

    @property
    def reason(self) -> str:
        """Return the reason as a sentence for the person who decides."""
        value = f"{self.parameter}={self.value!r}"
        match self.rule:
            case FlowRule.PLAN:
                return "the user's words do not ask for this tool"
            case FlowRule.SECRET:
                return "the tool returns secrets that the user's words do not ask for"
            case FlowRule.TARGET:
                return f"{value} is not from the user; it is from {self.origin}"
            case FlowRule.REF:
                return f"{value} does not identify a result that was looked up ({self.origin})"
            case FlowRule.NAME:
                return f"{value} contains words that are not from the user ({self.origin})"
            case FlowRule.TEXT:
                return f"{self.parameter} contains {self.value!r}, which is from {self.origin}"

    def as_data(self) -> dict[str, JsonData]:
        """Return the violation as JSON data for an event."""
        return {
            "rule": str(self.rule),
            "parameter": self.parameter,
            "value": self.value,
            "origin": self.origin,
            "reason": self.reason,
        }
