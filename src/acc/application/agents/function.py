"""FunctionAgent: a plain function as an agent."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from acc.application.agents.base import StandardAgent, require
from acc.application.runtime.context import RunContext
from acc.application.runtime.conversation import TURN_EVENTS, conversation_turn
from acc.domain.call_options import accepts
from acc.domain.errors import InvalidTree
from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.run import RunStatus


@dataclass(kw_only=True, eq=False)
class FunctionAgent(StandardAgent[Any, Any]):
    """A function from a message to an answer, sync or async, as an agent.

    The first parameter gets the text of the message. A function with parameters of these names gets
    them too: `session_id`, `user_id`, and `history`, the earlier messages of the session as a list
    of `{"role": "user" or "assistant", "content": text}`. A sync function runs in a thread. `name`
    is by default that of the function.
    """

    function: Callable[..., Any] | None = field(default=None, kw_only=False)
    name: str = ""

    def __post_init__(self) -> None:
        name = getattr(self.function, "__name__", "")
        self.name = self.name or (name if name.isidentifier() else "function")
        super().__post_init__()

    def check(self) -> None:
        """Raise InvalidTree if the function cannot be called with a message."""
        require(callable(self.function), self, "function", "a function from message to answer")
        if self.sub_agents:
            raise InvalidTree(f"agent {self.name!r} is a function and has no sub-agents")
        if not _is_callable_with(self._function, self._options()):
            raise InvalidTree(
                f"agent {self.name!r}: the function must take the message, and beside it only "
                "session_id, user_id and history: write def answer(message, history)"
            )

    @property
    def _function(self) -> Callable[..., Any]:
        assert self.function is not None  # noqa: S101 - `check` requires it
        return self.function

    def _options(self) -> dict[str, Any]:
        """Return the parameters that the function asks for by name."""
        try:
            parameters = inspect.signature(self._function).parameters
        except (TypeError, ValueError):  # functions implemented in C may have no signature
            return {}
        known = ("session_id", "user_id", "history")
        return {name: None for name in list(parameters)[1:] if name in known}

    async def _run(self, ctx: RunContext) -> Any:
        options = self._options()
        values = {"session_id": ctx.session_id, "user_id": ctx.user_id}
        options |= {name: values[name] for name in options if name in values}
        if "history" in options:
            options["history"] = await _history(ctx)
        if inspect.iscoroutinefunction(self._function):
            return await self._function(ctx.message, **options)
        answer = await ctx.services.threads.call(self._function, ctx.message, **options)
        return await answer if inspect.isawaitable(answer) else answer


def _is_callable_with(function: Callable[..., Any], options: dict[str, Any]) -> bool:
    try:
        inspect.signature(function).bind("", **options)
    except TypeError:
        return False
    except ValueError:
        return accepts(function, 1)
    return True


async def _history(ctx: RunContext) -> list[dict[str, str]]:
    """Return the texts of the finished turns of the session."""
    if not ctx.history:
        return []
    request = ctx.run.request
    turns: dict[str, list[Event]] = {}
    history: list[dict[str, str]] = []
    for event in await ctx.services.sessions.events(
        request.key, before=request.first_seq, kinds=TURN_EVENTS
    ):
        turns.setdefault(event.run_id, []).append(event)
        if event.kind is EventKind.ENDED and event.status is not RunStatus.INPUT_REQUIRED:
            for message in conversation_turn(turns.pop(event.run_id)).messages:
                if message.role != "tool" and message.text:
                    history.append({"role": message.role, "content": message.text})
    return history
