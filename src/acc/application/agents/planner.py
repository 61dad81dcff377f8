"""Planners: what an agent does before it acts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias, get_args

import msgspec

from acc.application.tools.tool import BaseTool, ToolContext
from acc.application.tracing.conventions import PLAN
from acc.domain.call_options import check_call, explains_call
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.base import JsonData
from acc.domain.value_objects.content import ChatMessage
from acc.ports.outbound.model_ports import ModelSettings, Thinking, ToolSpec

PLAN_TOOL_NAME = "write_plan"
_INSTRUCTION = (
    f"If you need tools to answer, first call {PLAN_TOOL_NAME} with the steps that you intend to "
    "take. Then follow the plan. If a result shows that the plan is wrong or incomplete, call "
    f"{PLAN_TOOL_NAME} again with all steps that remain before you continue. If you need no tools, "
    "answer directly."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFirst:
    """Lets any model write a plan before it uses tools: `Agent(planner=PlanFirst())`.

    Until a plan exists in a turn, the agent has no other tool than `write_plan`. The plan is a
    recorded tool call, so it is visible as an event and to the model. A plan has at most
    `max_steps` steps and may be replaced at most `max_revisions` times in a turn.
    """

    max_steps: int = 12
    max_revisions: int = 5

    if not TYPE_CHECKING:

        def __new__(cls, *arguments: object, **options: object) -> "PlanFirst":
            """Raise InvalidInput for options that the class does not have."""
            check_call(cls, arguments, options)
            return object.__new__(cls)

    def __post_init__(self) -> None:
        for name, least in (("max_steps", 1), ("max_revisions", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise InvalidInput(
                    f"PlanFirst.{name} must be an integer of at least {least}, got {value!r}"
                )

    @property
    def instruction(self) -> str:
        """Return what the instruction of the agent is followed by."""
        return _INSTRUCTION


@explains_call()
@dataclass(frozen=True, slots=True)
class NativeThinking:
    """Lets the provider's model think before it answers: `NativeThinking("high")`.

    It sets `ModelSettings.thinking` of the agent. A model without this ability ignores it or
    rejects the request, which depends on the provider.
    """

    effort: Thinking = "medium"

    def __post_init__(self) -> None:
        if self.effort not in get_args(Thinking):
            raise InvalidInput(
                f"NativeThinking: the effort must be one of {', '.join(get_args(Thinking))}, got "
                f"{self.effort!r}"
            )

    def settings(self, given: ModelSettings | None) -> ModelSettings:
        """Return the settings of an agent with this effort."""
        if given is not None and given.thinking not in (None, self.effort):
            raise InvalidInput(
                f"planner=NativeThinking({self.effort!r}) contradicts "
                f"ModelSettings(thinking={given.thinking!r}); remove one of them"
            )
        return replace(given or ModelSettings(), thinking=self.effort)


Planner: TypeAlias = PlanFirst | NativeThinking


class _Arguments(msgspec.Struct, forbid_unknown_fields=True):
    steps: list[str]


class PlanTool(BaseTool):
    """Records the plan of an agent for this turn; `plans` counts the ones that it wrote."""

    name = PLAN_TOOL_NAME
    description = "Write down the steps that you intend to take, or replace them by a new plan."
    parallel = False
    idempotent = True
    runs_in_debug = True
    operation = PLAN

    def __init__(self, planner: PlanFirst) -> None:
        self._planner = planner
        self.plans = 0

    @property
    def spec(self) -> ToolSpec:
        """Return the name, description and schema that the model receives."""
        steps = {
            "type": "array",
            "items": {"type": "string"},
            "minItems": 1,
            "maxItems": self._planner.max_steps,
        }
        return ToolSpec(
            name=self.name,
            description=self.description,
            parameters={"type": "object", "properties": {"steps": steps}, "required": ["steps"]},
        )

    def validate(self, arguments: Mapping[str, JsonData]) -> dict[str, JsonData]:
        """Return the steps, or raise ValueError if this is not a plan."""
        steps = [step.strip() for step in msgspec.convert(arguments, _Arguments).steps]
        if not all(steps) or not 1 <= len(steps) <= self._planner.max_steps:
            raise ValueError(f"a plan has 1 to {self._planner.max_steps} steps that are not empty")
        if self.plans > self._planner.max_revisions:
            raise ValueError(
                f"the plan was revised {self._planner.max_revisions} times; act or answer now"
            )
        return {"steps": steps}

    async def invoke(self, arguments: Mapping[str, JsonData], ctx: ToolContext) -> object:
        """Return the numbered plan, which is recorded as the result."""
        numbered = [f"{n}. {step}" for n, step in enumerate(arguments["steps"], start=1)]
        return {"plan": numbered, "revision": self.plans}


def count_plans(messages: Sequence[ChatMessage]) -> int:
    """Return the number of plans that messages of a turn contain."""
    return sum(
        result.name == PLAN_TOOL_NAME and not result.is_error
        for message in messages
        for result in message.results
    )
