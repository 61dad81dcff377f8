"""Runners of agents under evaluation: built-in, agent tree, remote, Python object."""

import asyncio
import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from typing import Any, NoReturn, Protocol

import msgspec

from acc.application.a2a.projection import MEMORY_FOOTPRINT
from acc.application.agents.base import BaseAgent
from acc.application.agents.framework import FrameworkAgent
from acc.application.agents.function import FunctionAgent
from acc.application.agents.llm import LlmAgent, has_memory
from acc.application.agents.remote_content import (
    answer_artifact,
    answer_text,
    message_text,
    status_text,
)
from acc.application.runtime.result import RunResult
from acc.application.runtime.runner import SessionRunner
from acc.domain.errors import AccError, InvalidInput, ModelFailed
from acc.domain.value_objects.content import text_part
from acc.domain.value_objects.event import EventKind
from acc.domain.value_objects.live_evaluation import (
    PROCESS_ERROR,
    TIMEOUT_ERROR,
    AgentTurnResponse,
    EvaluationTurnQuery,
)
from acc.domain.value_objects.memory import ConversationTurn, TurnSignal
from acc.domain.value_objects.run import RunConfig, RunStatus
from acc.domain.value_objects.task import INTERRUPTED, Message, Role, Task, TaskState
from acc.ports.outbound.live_evaluation_ports import AgentRunnerPort
from acc.ports.outbound.memory_ports import (
    CanonicalReaderPort,
    MemoryPort,
    MemoryView,
    RestorableMemoryPort,
)
from acc.ports.outbound.model_ports import LanguageModelPort, ModelRequest, ModelResponse
from acc.ports.outbound.remote_ports import RemoteAgentPort
from acc.ports.outbound.system_ports import IdsPort


class MemoryAgentRunner:
    """A built-in agent: a model that answers from the view of a memory."""

    def __init__(
        self,
        *,
        agent_name: str,
        model: LanguageModelPort,
        memory: MemoryPort,
        instruction: str = "",
    ) -> None:
        self._agent_name = agent_name
        self._model = model
        self._memory = memory
        self._instruction = instruction
        #: Messages of earlier turns with the names under which prompts refer to them.
        self._names: dict[tuple[str, str], str] = {}

    @property
    def agent_name(self) -> str:
        """Return the name under which the answers are recorded."""
        return self._agent_name

    async def run_turn(
        self, query: EvaluationTurnQuery, canonical_memory: Mapping[str, object]
    ) -> AgentTurnResponse:
        """Answer one turn from the memory's view and the query."""
        view = await self._view(query, canonical_memory)
        prompt = ModelRequest.of(
            query.query, memory=view.text, earlier=view.messages, instruction=self._instruction
        )
        answer = (await self._model.complete(prompt)).text
        shown = self._prompt(view)
        await self._record(query, answer)
        return AgentTurnResponse(
            agent_name=self._agent_name,
            response_text=answer,
            memory_tokens=view.tokens,
            trace=view.detail,
            prompt=shown,
        )

    async def replay_turn(
        self,
        query: EvaluationTurnQuery,
        canonical_memory: Mapping[str, object],
        response: AgentTurnResponse,
    ) -> None:
        """Restore the memory after a recorded turn without calling the model.

        A recorded state is restored; after a failed turn the state is computed again.
        """
        recorded = response.trace.get("snapshot")
        if isinstance(self._memory, RestorableMemoryPort) and isinstance(recorded, Mapping):
            self._memory.restore(recorded)
        else:
            await self._view(query, canonical_memory)
        if not response.error:
            await self._record(query, response.response_text)

    async def _record(self, query: EvaluationTurnQuery, answer: str) -> None:
        await self._memory.record(ConversationTurn.of(query.turn_id, query.query, answer))
        self._names["user", query.query] = f"query {query.turn_id}"
        self._names["assistant", answer] = f"answer {query.turn_id}"

    def _prompt(self, view: MemoryView) -> dict[str, object]:
        """Return what the model got besides the query; known messages are named, not repeated."""
        messages = [
            self._names.get((message.role, message.text))
            or {"role": message.role, "text": message.text}
            for message in view.messages
        ]
        prompt = {"instruction": self._instruction, "memory": view.text, "messages": messages}
        return {name: part for name, part in prompt.items() if part}

    async def _view(
        self, query: EvaluationTurnQuery, canonical_memory: Mapping[str, object]
    ) -> MemoryView:
        if isinstance(self._memory, CanonicalReaderPort):
            self._memory.read_canonical(canonical_memory)
        return await self._memory.view(TurnSignal(turn_id=query.turn_id, text=query.query))


class RecordedAgentRunner:
    """Repeats the recorded answers of an agent, so that another judge can score them."""

    def __init__(self, agent_name: str, responses: Mapping[int, AgentTurnResponse]) -> None:
        self._agent_name = agent_name
        self._responses = responses

    @property
    def agent_name(self) -> str:
        """Return the name under which the answers are recorded."""
        return self._agent_name

    async def run_turn(
        self, query: EvaluationTurnQuery, canonical_memory: Mapping[str, object]
    ) -> AgentTurnResponse:
        """Return the recorded answer."""
        return self._responses[query.turn_id]

    async def replay_turn(
        self,
        query: EvaluationTurnQuery,
        canonical_memory: Mapping[str, object],
        response: AgentTurnResponse,
    ) -> None:
        """Do nothing: recorded answers depend on no state."""


_USER_ID = "evaluation"
_SESSION_ID = "episode"
_UNTRACED_FIELDS = ("tokens", "snapshot", "checkpoint", "previous", "outcome")
_MAX_TRACED_STEPS = 16
_MAX_ARGUMENTS_LENGTH = 200


class RuntimeAgentRunner:
    """Runs an agent tree in one session per episode; the tree sees only the queries.

    A run that fails, rejects the query or requires input is a failed turn, and the next turn
    continues.

    Replay depends on the tree. A single LlmAgent without tools and callbacks is replayed without
    calling its model: the recorded answer is used, which restores its memory unless the turn took
    two model calls or a model writes the memory. Any other tree runs the turn again, because the
    messages between its agents are not recorded: tools are called again, and the records are
    identical only if the tree is deterministic. A turn that timed out or ended the process is
    recorded as failed without running it again.
    """

    def __init__(self, *, agent_name: str, runner: SessionRunner) -> None:
        self._agent_name = agent_name
        self._runner = runner
        self._remembers = has_memory(runner.agent)

    @property
    def agent_name(self) -> str:
        """Return the name under which the answers are recorded."""
        return self._agent_name

    async def run_turn(
        self, query: EvaluationTurnQuery, canonical_memory: Mapping[str, object]
    ) -> AgentTurnResponse:
        """Run the tree on the query."""
        return await self._turn(self._runner, query)

    async def replay_turn(
        self,
        query: EvaluationTurnQuery,
        canonical_memory: Mapping[str, object],
        response: AgentTurnResponse,
    ) -> None:
        """Restore the session after a recorded turn."""
        runner, agent = self._runner, self._runner.agent
        config = runner.config
        timeout = asyncio.timeout(None)
        if type(agent) is LlmAgent and _is_plain(agent):
            recorded = replace(agent, model=_RecordedModel(response, timeout))
            services = replace(runner.services, wrap_model=None)  # no model is called
            runner = SessionRunner(
                recorded, app_name=runner.app_name, services=services, config=config
            )
        elif response.error.startswith((TIMEOUT_ERROR, PROCESS_ERROR)):

            async def time_out(context: object) -> str:
                return await _time_out(timeout)

            names = (one.name for one in agent.walk_all())
            config = replace(config, stubs=dict.fromkeys(names, time_out))
        with suppress(TimeoutError):  # recorded as in the first run
            async with timeout:
                await self._turn(runner, query, config)

    async def _turn(
        self, runner: SessionRunner, query: EvaluationTurnQuery, config: RunConfig | None = None
    ) -> AgentTurnResponse:
        try:
            result = await runner.run(
                user_id=_USER_ID, session_id=_SESSION_ID, message=query.query, config=config
            )
        except AccError as error:
            return self._failed(f"{error.code}: {error}")
        if result.status is RunStatus.COMPLETED:
            return AgentTurnResponse(
                agent_name=self._agent_name,
                response_text=result.text,
                memory_tokens=self._memory_tokens(result),
                trace=_trace(result),
            )
        if result.status is not RunStatus.INPUT_REQUIRED:
            return self._failed(result.text)
        messages = "; ".join(request.message for request in result.requests)
        await runner.abandon(
            user_id=_USER_ID, session_id=_SESSION_ID, reason="evaluations have no user input"
        )
        return self._failed(f"{result.status.value}: the agent requires input: {messages}")

    def _memory_tokens(self, result: RunResult) -> int | None:
        """Return the size of the memory that models got; None if nobody measured it."""
        if self._remembers:
            return result.usage.memory_tokens
        memories = [event.detail for event in result.events if event.kind is EventKind.MEMORY]
        measured = [detail["tokens"] for detail in memories if "tokens" in detail]
        return max(measured, default=None)

    def _failed(self, error: str) -> AgentTurnResponse:
        return AgentTurnResponse(agent_name=self._agent_name, response_text="", error=error)


class _RecordedModel:
    """Returns the recorded answer, or fails as recorded: later turns show the failure."""

    def __init__(self, response: AgentTurnResponse, timeout: asyncio.Timeout) -> None:
        self._response = response
        self._timeout = timeout

    async def complete(self, prompt: ModelRequest) -> ModelResponse:
        error = self._response.error
        if error.startswith((TIMEOUT_ERROR, PROCESS_ERROR)):
            await _time_out(self._timeout)
        if error:
            failure = ModelFailed(error)
            failure.code = error.partition(":")[0]
            raise failure
        return ModelResponse(text=self._response.response_text)


async def _time_out(running: asyncio.Timeout) -> NoReturn:
    """Cancel the turn that is replayed."""
    running.reschedule(0)
    await asyncio.Event().wait()
    raise AssertionError("the timeout has passed")


def _is_plain(agent: LlmAgent) -> bool:
    """Return True if the turns of an agent depend only on the answers of its model."""
    return not (
        agent.sub_agents
        or agent.own_tools
        or agent.toolsets
        or agent.confirm
        or agent.before_agent_callback
        or agent.after_agent_callback
        or agent.before_model_callback
        or agent.after_model_callback
    )


def check_no_shared_memory(agent: BaseAgent, reference: str) -> None:
    """Raise InvalidInput if a tree has a memory object that episodes would share."""
    for one in agent.walk_all():
        memory = one.memory if isinstance(one, LlmAgent) else None
        if isinstance(memory, MemoryPort) and not isinstance(memory, str):
            raise InvalidInput(
                f"{reference}: the memory of {one.name!r} would be shared by all episodes; use a "
                "function that creates the memory, or refer to a function that creates the agent"
            )


def _trace(result: RunResult) -> dict[str, object]:
    """Return the newest state of the memory, the answering agents and the tool calls."""
    trace: dict[str, object] = {}
    agents: list[str] = []
    tools: list[str] = []
    for event in result.events:
        if event.kind is EventKind.MEMORY:
            trace = {key: v for key, v in event.detail.items() if key not in _UNTRACED_FIELDS}
        elif event.kind is EventKind.MESSAGE and event.author != "user":
            agents.append(event.author)
        for call in event.calls:
            arguments = msgspec.json.encode(call.arguments).decode()[:_MAX_ARGUMENTS_LENGTH]
            tools.append(f"{event.author}: {call.name} {arguments}")
    trace["agents"] = agents[:_MAX_TRACED_STEPS]
    if tools:
        trace["tools"] = tools[:_MAX_TRACED_STEPS]
    return trace


_CONTEXT_FIELD = "context"
#: Larger numbers of tokens are not plausible.
_MAX_MEMORY_TOKENS = 10**9


class RemoteAgentRunner:
    """Runs a remote agent in one context per episode; the agent sees only the queries.

    The server creates the context in the first turn. The context id is recorded in the trace of
    each turn, so that an interrupted episode continues in the same context, as long as the server
    stores it. An interrupted turn is sent again with the same message id.

    A task that fails or requires input is a failed turn, and the next turn continues.
    """

    def __init__(self, *, agent_name: str, remote: RemoteAgentPort, ids: IdsPort) -> None:
        self._agent_name = agent_name
        self._remote = remote
        self._ids = ids
        self._context = ""

    @property
    def agent_name(self) -> str:
        """Return the name under which the answers are recorded."""
        return self._agent_name

    async def run_turn(
        self, query: EvaluationTurnQuery, canonical_memory: Mapping[str, object]
    ) -> AgentTurnResponse:
        """Send the query and return the answer."""
        message = Message(
            message_id=self._message_id(query),
            role=Role.USER,
            parts=text_part(query.query),
            context_id=self._context,
        )
        try:
            result = await self._remote.send(message, on_update=self._note)
        except AccError as error:
            return self._response(error=f"{error.code}: {error}")
        self._context = result.context_id or self._context
        if isinstance(result, Message):
            return self._response(message_text(result.parts))
        return await self._task_response(result)

    async def replay_turn(
        self,
        query: EvaluationTurnQuery,
        canonical_memory: Mapping[str, object],
        response: AgentTurnResponse,
    ) -> None:
        """Restore the context id of a recorded turn; the server has the history."""
        context = response.trace.get(_CONTEXT_FIELD)
        if isinstance(context, str) and context:
            self._context = context

    async def _task_response(self, task: Task) -> AgentTurnResponse:
        if task.state in INTERRUPTED:
            with suppress(
                AccError
            ):  # the turn has failed whether or not the server cancels the task
                await self._remote.cancel(task.id)
            return self._response(
                error=f"{task.state}: the agent requires input: {status_text(task)}"
            )
        if task.state is not TaskState.COMPLETED:
            return self._response(error=f"{task.state}: {status_text(task)}")
        return self._response(answer_text(task, answer_artifact(task)), footprint(task))

    async def _note(self, task: Task, update: object) -> None:
        # If the turn times out, the next turn continues the same context.
        self._context = task.context_id or self._context

    def _message_id(self, query: EvaluationTurnQuery) -> str:
        if not self._context:
            return self._ids.new()
        return sha256(f"{self._context}\n{query.turn_id}".encode()).hexdigest()[:32]

    def _response(
        self, text: str = "", memory_tokens: int | None = None, error: str = ""
    ) -> AgentTurnResponse:
        return AgentTurnResponse(
            agent_name=self._agent_name,
            response_text=text,
            memory_tokens=memory_tokens,
            trace={_CONTEXT_FIELD: self._context} if self._context else {},
            error=error,
        )


def footprint(task: Task) -> int | None:
    """Return the memory tokens that a server reports, or None."""
    reported = task.metadata.get(MEMORY_FOOTPRINT)
    tokens = reported.get("tokens") if isinstance(reported, Mapping) else None
    is_number = isinstance(tokens, int) and not isinstance(tokens, bool)
    return (
        tokens if is_number and tokens is not None and 0 <= tokens <= _MAX_MEMORY_TOKENS else None
    )


def load_tree(target: Any) -> BaseAgent | None:
    """Return the agent that an object is or creates, or None for other objects."""
    if _creates_agents(target):
        target = target()
    return target if isinstance(target, BaseAgent) else None


class IsolatedRunnerFactory(Protocol):
    """Creates the runner of an object in a process of its own."""

    def __call__(self, agent_name: str, reference: str, *, has_state: bool) -> AgentRunnerPort:
        """Return a runner of the object that `MODULE:NAME` refers to."""
        ...


def make_runner(
    agent_name: str,
    reference: str,
    target: Any,
    *,
    run_agent: Callable[[str, BaseAgent], AgentRunnerPort],
    isolate: IsolatedRunnerFactory | None = None,
) -> AgentRunnerPort:
    """Return a runner for the agent, class or function that `MODULE:NAME` refers to.

    Classes with `run_turn`, and functions without parameters that create an agent, are called for
    every episode. A function from query to answer may be async; with the parameters `session_id` or
    `history` it is run as an agent. `run_agent` returns the runner of an agent tree, and `isolate`
    the runner of another object in a process of its own.
    """
    function = getattr(target, "run_turn", target)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidInput(f"{reference!r} yields: return the whole answer")
    if inspect.isclass(target) and isolate is not None and hasattr(target, "run_turn"):
        return isolate(agent_name, reference, has_state=True)
    target = _create_target(agent_name, reference, target)
    if isinstance(target, BaseAgent):
        return run_agent(agent_name, target)
    answer = getattr(target, "run_turn", None)
    if answer is None and not callable(target):
        raise InvalidInput(f"{reference!r} must be an agent, a function, or a class with run_turn")
    if answer is None:
        _check_signature(target, ("query",), f"{reference!r} must accept the query")
    else:
        _check_signature(
            answer,
            ("query", {}),
            f"run_turn of {reference!r} must accept query and canonical_memory",
        )
    if isolate is not None:
        return isolate(agent_name, reference, has_state=answer is not None)
    return PythonAgentRunner(agent_name, target, takes_turn=answer is not None)


def _create_target(agent_name: str, reference: str, target: Any) -> Any:
    """Return the agent or object that answers the turns of an episode."""
    if isinstance(target, FrameworkAgent):
        target = target.isolated()
    if _wants_session(target):
        target = FunctionAgent(target, name=agent_name)
    if isinstance(target, BaseAgent):
        check_no_shared_memory(target, reference)
    elif inspect.isclass(target) or _creates_agents(target):
        try:
            return target()
        except Exception as error:
            raise InvalidInput(
                f"cannot create {reference}: {type(error).__name__}: {error}"
            ) from error
    return target


def _wants_session(target: object) -> bool:
    if not inspect.isfunction(target):
        return False
    parameters = list(inspect.signature(target).parameters)[1:]
    return "session_id" in parameters or "history" in parameters


def _check_signature(function: Any, arguments: tuple[object, ...], expected: str) -> None:
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError as error:
        raise InvalidInput(f"{expected}, but its signature does not: {error}") from None
    except ValueError:  # a built-in function without a signature
        return


def _creates_agents(target: object) -> bool:
    """Return True if an object is a function without parameters."""
    if not inspect.isfunction(target) or inspect.iscoroutinefunction(target):
        return False
    return not inspect.signature(target).parameters


class PythonAgentRunner:
    """Runs a user's object with `run_turn`, or a function from query to answer."""

    def __init__(self, agent_name: str, target: Any, *, takes_turn: bool) -> None:
        self._agent_name = agent_name
        self._call: Callable[..., Any] = target.run_turn if takes_turn else target
        self._takes_turn = takes_turn
        self._replay: Callable[..., Any] | None = getattr(target, "replay_turn", None)

    @property
    def agent_name(self) -> str:
        """Return the name under which the answers are recorded."""
        return self._agent_name

    async def run_turn(
        self, query: EvaluationTurnQuery, canonical_memory: Mapping[str, object]
    ) -> AgentTurnResponse:
        """Call the object."""
        arguments = (query, canonical_memory) if self._takes_turn else (query.query,)
        if inspect.iscoroutinefunction(self._call):
            result = await self._call(*arguments)
        else:
            # A plain function may block, so it runs in a thread.
            result = await asyncio.to_thread(self._call, *arguments)
            if inspect.isawaitable(result):
                result = await result
        if isinstance(result, AgentTurnResponse):
            return replace(result, agent_name=self._agent_name)
        if not isinstance(result, str):
            raise TypeError(f"returned {type(result).__name__}, expected str")
        return AgentTurnResponse(agent_name=self._agent_name, response_text=result)

    async def replay_turn(
        self,
        query: EvaluationTurnQuery,
        canonical_memory: Mapping[str, object],
        response: AgentTurnResponse,
    ) -> None:
        """Let the object replay the turn; without `replay_turn` it is called again."""
        if self._replay is not None:
            await self._replay(query, canonical_memory, response)
        elif not response.error:
            await self.run_turn(query, canonical_memory)
