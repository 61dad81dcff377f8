"""`agent.run("hello")`: run an agent with a message, without a runner of one's own."""

import inspect
from collections.abc import Callable, Coroutine, Sequence
from functools import wraps
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Protocol

from acc.application.runtime.inputs import Message
from acc.application.runtime.result import RunResult
from acc.application.runtime.type_variables import AnyDepsT, AnyOutputT
from acc.domain.call_options import accepts
from acc.domain.errors import InvalidInput, InvalidTree
from acc.domain.value_objects.content import Part
from acc.domain.value_objects.run import CallContext, RunConfig
from acc.domain.value_objects.session import DEFAULT_SESSION_ID, DEFAULT_USER_ID

if TYPE_CHECKING:
    from acc.application.agents.base import BaseAgent


class AgentRunner(Protocol[AnyDepsT, AnyOutputT]):
    """Runs one agent in sessions."""

    async def run(
        self,
        message: Message,
        *,
        user_id: str = DEFAULT_USER_ID,
        session_id: str = DEFAULT_SESSION_ID,
        config: RunConfig | None = None,
        context: CallContext | None = None,
        deps: AnyDepsT | None = None,
    ) -> RunResult[AnyOutputT]:
        """Run one turn and return its result."""
        ...

    def run_sync(
        self,
        message: Message,
        *,
        user_id: str = DEFAULT_USER_ID,
        session_id: str = DEFAULT_SESSION_ID,
        config: RunConfig | None = None,
        context: CallContext | None = None,
        deps: AnyDepsT | None = None,
    ) -> RunResult[AnyOutputT]:
        """Run one turn without `await` and return its result."""
        ...


RunnerFactory = Callable[["BaseAgent"], AgentRunner]
_factories: list[RunnerFactory] = []


def set_runner_factory(make: RunnerFactory) -> None:
    """Set the function that creates the runners of agents; the application has none itself."""
    _factories[:] = [make]


class OwnRunner:
    """The runner of one agent, created with its first message. Copies of the agent share none."""

    __slots__ = ("_runner",)

    def __init__(self) -> None:
        self._runner: AgentRunner | None = None

    def get(self, agent: "BaseAgent") -> AgentRunner:
        """Return the runner of the agent; its sessions are in memory."""
        if self._runner is None:
            if not _factories:
                raise InvalidInput("agent.run(message) needs `import acc`; or use Runner(agent)")
            self._runner = _factories[0](agent)
        return self._runner

    def __deepcopy__(self, _: object) -> "OwnRunner":
        return OwnRunner()


def runner_of(agent: "BaseAgent") -> AgentRunner:
    """Return the runner of an agent."""
    check_init(agent)
    return agent._own_runner.get(agent)


def check_init(agent: object) -> None:
    """Raise InvalidInput if the constructor of an agent's class did not call that of its base."""
    if "_own_runner" not in vars(agent):
        raise InvalidInput(
            f"{type(agent).__name__}.__init__ must call super().__init__(name=...) of the agent"
        )


def accept_messages(cls: "type[BaseAgent]") -> None:
    """Let `run` of a class, if it defines one, take a message in place of the context."""
    run_in_context: Any = vars(cls).get("run")
    if not inspect.isfunction(run_in_context):
        return
    if inspect.isasyncgenfunction(run_in_context) or not accepts(run_in_context, 2):
        raise InvalidTree(
            f"{cls.__name__}.run must be `async def run(self, ctx)` and return its answer"
        )

    @wraps(run_in_context)
    def run(
        self: "BaseAgent", *arguments: Any, **options: Any
    ) -> Coroutine[Any, Any, RunResult | str | None]:
        given = arguments[0] if arguments else options.get("message")
        if isinstance(given, str | Part | Sequence):
            return runner_of(self).run(*arguments, **options)
        if not arguments and "ctx" not in options:
            raise InvalidInput(f'agent {self.name!r}: run(...) needs a message: run("hello")')
        result: Coroutine[Any, Any, str | None] = run_in_context(self, *arguments, **options)
        if type(result) is not CoroutineType and not inspect.isawaitable(result):
            raise TypeError(
                f"{cls.__name__}.run returned {type(result).__name__}; expected "
                "`async def run(self, ctx)`"
            )
        return result

    cls.run = run  # type: ignore[method-assign] # wraps it
