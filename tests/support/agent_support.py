"""Small agents and one-line runs that the tests of composition share."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

from acc import (
    Agent,
    BaseAgent,
    CallContext,
    Event,
    EventKind,
    FunctionTool,
    ModelRequest,
    RunConfig,
    RunContext,
    Runner,
    RunResult,
    RunStatus,
    approve,
    tool,
)
from acc.adapters.storage.in_memory import InMemorySessionStore
from acc.domain.value_objects.content import RUNTIME_AUTHOR
from acc.domain.value_objects.session import SessionKey
from acc.testing import ScriptedModel, call


class Who(TypedDict):
    user_id: str
    session_id: str


WHO: Who = {"user_id": "ann", "session_id": "s1"}


@dataclass(kw_only=True, eq=False)
class Does(BaseAgent):
    """Runs a function of the context; what that returns, or `NAME done`, is its answer."""

    do: Callable[[RunContext], Any] = lambda ctx: None

    async def run(self, ctx: RunContext) -> str:
        found = self.do(ctx)
        if inspect.isawaitable(found):
            found = await found
        return f"{self.name} done" if found is None else str(found)


@dataclass(kw_only=True, eq=False)
class Writes(BaseAgent):
    """Writes to the state and says its own name."""

    values: Mapping[str, Any] = field(default_factory=dict)

    async def run(self, ctx: RunContext) -> str:
        ctx.state.update(self.values)
        return self.name


def says(name: str, text: str = "", **fields: Any) -> Does:
    return Does(name=name, do=lambda ctx: text or name, **fields)


def escalates(name: str, **fields: Any) -> Does:
    def stop(ctx: RunContext) -> None:
        ctx.escalated = True

    return Does(name=name, do=stop, **fields)


def counts(name: str, key: str, **fields: Any) -> Does:
    """Return an agent that adds one to a number in the state and says the number."""

    def add(ctx: RunContext) -> int:
        ctx.state[key] = ctx.state.get(key, 0) + 1
        return int(ctx.state[key])

    return Does(name=name, do=add, **fields)


async def turn(
    agent: BaseAgent,
    message: str = "hello",
    *,
    config: RunConfig | None = None,
    context: CallContext | None = None,
) -> RunResult:
    """Run one turn in a session that nobody else knows."""
    return await Runner(agent, config=config).run(**WHO, message=message, context=context)


def events_of_kind(result: RunResult, kind: EventKind) -> list[Event]:
    return [event for event in result.events if event.kind is kind]


def messages(result: RunResult) -> list[tuple[str, str]]:
    """Return who said what, people left out."""
    messages = events_of_kind(result, EventKind.MESSAGE)
    return [(event.author, event.text) for event in messages if event.author != "user"]


def results(result: RunResult) -> list[Any]:
    """Return the content of all tool results."""
    found = [event.result for event in events_of_kind(result, EventKind.TOOL_RESULT)]
    return [item.content for item in found if item is not None]


def texts_of_other_agents(request: ModelRequest) -> list[str]:
    """Return what other agents said in this turn before the model was asked."""
    return [message.text for message in request.following if message.role == "assistant"]


def history(request: ModelRequest) -> list[tuple[str, str]]:
    """Return role and text of the messages of earlier turns, without notes of the runtime."""
    messages = [m for m in request.earlier if (m.role, m.author) != ("user", RUNTIME_AUTHOR)]
    return [(message.role, message.text) for message in messages]


def payment_tool() -> tuple[FunctionTool, list[int]]:
    """Return a tool that needs a yes, and what it paid."""
    paid: list[int] = []

    @tool(confirm=True)
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return f"paid {amount}"

    return pay, paid


def payer(name: str, pay: FunctionTool, *amounts: int, **fields: Any) -> Agent:
    calls = [call("pay", amount=amount) for amount in amounts]
    return Agent(name=name, model=ScriptedModel(calls, "done"), tools=[pay], memory=None, **fields)


async def approve_all(runner: Runner, paused: RunResult) -> RunResult:
    assert paused.status is RunStatus.INPUT_REQUIRED
    return await runner.resume(**WHO, answers=[approve(r.id) for r in paused.requests])


class ProcessKilled(BaseException):
    """What no code of ours survives."""


class CrashingStore(InMemorySessionStore):
    """A store that stores nothing more once its process is dead."""

    is_crashed = False

    async def append(
        self,
        key: SessionKey,
        events: Sequence[Event],
        *,
        holder: str,
        release: bool = False,
    ) -> tuple[Event, ...]:
        if self.is_crashed:
            raise ProcessKilled
        return await super().append(key, events, holder=holder, release=release)
