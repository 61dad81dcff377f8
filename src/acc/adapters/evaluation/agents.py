"""Agents under evaluation: one model, one memory."""

import asyncio
import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from typing import Any

import msgspec

from acc.adapters.system.object_loader import load_object
from acc.application.a2a.projection import MEMORY_FOOTPRINT
from acc.application.agents.base import BaseAgent
from acc.application.agents.llm import LlmAgent, has_memory
from acc.application.agents.remote_content import (
    answer_artifact,
    answer_text,
    message_text,
    status_text,
)
from acc.application.runtime.context import RunResult
from acc.application.runtime.runner import SessionRunner
from acc.domain.ccs import parse_text, to_payload
from acc.domain.errors import AccError, InvalidInput, ModelFailed
from acc.domain.value_objects.content import text_part
from acc.domain.value_objects.event import EventKind
from acc.domain.value_objects.live_evaluation import AgentTurnResponse, EvaluationTurnQuery
from acc.domain.value_objects.memory import Decision, TurnSignal
from acc.domain.value_objects.run import RunConfig, RunStatus
from acc.domain.value_objects.task import INTERRUPTED, Message, Role, Task, TaskState
from acc.ports.outbound.live_evaluation_ports import AgentRunnerPort
from acc.ports.outbound.memory_ports import (
    CanonicalReaderPort,
    MemoryPort,
    MemoryView,
    RestorableMemoryPort,
)
from acc.ports.outbound.model_ports import LanguageModelPort, ModelAnswer, Prompt
from acc.ports.outbound.remote_ports import RemoteAgentPort
from acc.ports.outbound.system_ports import IdsPort


class MemoryAgentRunner:
    """Answers with a model that sees what a memory shows it; the memory is the only difference."""

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

    @property
    def agent_name(self) -> str:
        """Return the name under which its answers are recorded."""
        return self._agent_name

    async def run_turn(
        self, query: EvaluationTurnQuery, canonical_memory: Mapping[str, object]
    ) -> AgentTurnResponse:
        """Answer one turn from the memory's view and the query."""
        signal, view = await self._view(query, canonical_memory)
        prompt = Prompt(query=query.query, memory=view.text, instruction=self._instruction)
        answer = (await self._model.complete(prompt)).text
        await self._memory.record(signal, Decision(turn_id=query.turn_id, text=answer))
        return AgentTurnResponse(
            agent_name=self._agent_name,
            response_text=answer,
            memory_tokens=view.tokens,
            trace=view.detail,
        )

    async def replay_turn(
        self,
        query: EvaluationTurnQuery,
        canonical_memory: Mapping[str, object],
        response: AgentTurnResponse,
    ) -> None:
        """Bring the memory to where it was after a recorded turn; the model is not asked.

        A state that is on record is taken up; only where a turn failed is it worked out again.
        """
        signal = TurnSignal(turn_id=query.turn_id, text=query.query)
        recorded = response.trace.get("ccs")
        if isinstance(self._memory, RestorableMemoryPort) and isinstance(recorded, str):
            self._memory.restore(to_payload(parse_text(recorded)))
        else:
            await self._view(query, canonical_memory)
        if not response.error:
            await self._memory.record(
                signal, Decision(turn_id=query.turn_id, text=response.response_text)
            )

    async def _view(
        self, query: EvaluationTurnQuery, canonical_memory: Mapping[str, object]
    ) -> tuple[TurnSignal, MemoryView]:
        if isinstance(self._memory, CanonicalReaderPort):
            self._memory.read_canonical(canonical_memory)
        signal = TurnSignal(turn_id=query.turn_id, text=query.query)
        return signal, await self._memory.view(signal)


_USER = "evaluation"
_SESSION = "episode"
#: How the evaluation words it.
_TIMED_OUT = "no answer within"
_NOT_TRACED = ("tokens", "snapshot")
_MOST_STEPS = 16
_MOST_ARGUMENTS = 200


class RuntimeAgentRunner:
    """Holds an episode's conversation with a tree of agents.

    A run that fails, rejects the query or would wait for a person is a failed turn; the next turn
    goes on. The tree sees the queries and nothing else.

    A recorded turn is replayed without asking the model where the tree is a lone LlmAgent without
    tools and callbacks: a stand-in for its model gives the recorded answer, so its memory becomes
    what it was, unless it had to answer twice because its first answer did not fit its schema, or a
    model that answers otherwise the second time writes that memory. Any
    other tree runs the turn again, for what its parts said to each other is not in the record: it
    continues to the same bytes only as far as it answers the same twice, and its tools are called
    again. A turn that had run out of time is not tried again but put down as failed.
    """

    def __init__(self, *, agent_name: str, runner: SessionRunner) -> None:
        self._agent_name = agent_name
        self._runner = runner
        self._remembers = has_memory(runner.agent)

    @property
    def agent_name(self) -> str:
        """Return the name under which its answers are recorded."""
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
        """Bring the session to where it was after a recorded turn."""
        runner, agent = self._runner, self._runner.agent
        config = runner.config
        if type(agent) is LlmAgent and _is_plain(agent):
            recorded = replace(agent, model=_RecordedModel(response))
            services = replace(runner.services, watched=None)  # nothing is asked
            runner = SessionRunner(
                recorded, app_name=runner.app_name, services=services, config=config
            )
        elif response.error.startswith(_TIMED_OUT):
            config = replace(
                config, stubs=dict.fromkeys((one.name for one in agent.walk_all()), _fail)
            )
        await self._turn(runner, query, config)

    async def _turn(
        self, runner: SessionRunner, query: EvaluationTurnQuery, config: RunConfig | None = None
    ) -> AgentTurnResponse:
        try:
            result = await runner.run(
                user_id=_USER, session_id=_SESSION, message=query.query, config=config
            )
        except AccError as error:
            return self._failed(f"{error.code}: {error}")
        if result.status is RunStatus.COMPLETED:
            return AgentTurnResponse(
                agent_name=self._agent_name,
                response_text=result.text,
                memory_tokens=result.usage.memory_tokens if self._remembers else None,
                trace=_trace(result),
            )
        if result.status is not RunStatus.INPUT_REQUIRED:
            return self._failed(result.text)
        asked = "; ".join(request.message for request in result.requests)
        await runner.abandon(user_id=_USER, session_id=_SESSION, reason="nobody is there")
        return self._failed(f"{result.status.value}: it waits for a person: {asked}")

    def _failed(self, error: str) -> AgentTurnResponse:
        return AgentTurnResponse(agent_name=self._agent_name, response_text="", error=error)


class _RecordedModel:
    """Says what was said before."""

    def __init__(self, response: AgentTurnResponse) -> None:
        self._response = response

    async def complete(self, prompt: Prompt) -> ModelAnswer:
        if self._response.error:
            raise ModelFailed(self._response.error)
        return ModelAnswer(text=self._response.response_text)


def _fail(context: object) -> str:
    raise ModelFailed("it had run out of time")


def _is_plain(agent: LlmAgent) -> bool:
    """Tell whether a model's answer is all that an agent's turn depends on."""
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


def check_is_fresh(agent: BaseAgent, reference: str) -> None:
    """Refuse a tree that is used by several episodes and holds a memory that serves but one."""
    for one in agent.walk_all():
        memory = one.memory if isinstance(one, LlmAgent) else None
        if isinstance(memory, MemoryPort) and not isinstance(memory, str):
            raise InvalidInput(
                f"{reference}: {one.name!r} holds a memory that would go from episode to episode; "
                "give it a function that makes one, or name a function that makes the agent"
            )


def _trace(result: RunResult) -> dict[str, object]:
    """Return what the newest commit of a memory shows, and who answered and called what."""
    trace: dict[str, object] = {}
    agents: list[str] = []
    tools: list[str] = []
    for event in result.events:
        if event.kind is EventKind.MEMORY:
            trace = {key: v for key, v in event.detail.items() if key not in _NOT_TRACED}
        elif event.kind is EventKind.MESSAGE and event.author != "user":
            agents.append(event.author)
        for call in event.calls:
            arguments = msgspec.json.encode(call.arguments).decode()[:_MOST_ARGUMENTS]
            tools.append(f"{event.author}: {call.name} {arguments}")
    trace["agents"] = agents[:_MOST_STEPS]
    if tools:
        trace["tools"] = tools[:_MOST_STEPS]
    return trace


_CONTEXT = "context"
#: What is above that is no count of tokens that anybody was shown.
_MOST_TOKENS = 10**9


class RemoteAgentRunner:
    """Holds an episode's conversation with a remote agent, which sees the queries and no more.

    Its server makes the context with the first turn, so that no two episodes share one. The context
    is kept in the trace of each turn: an episode that was cut off goes on in it, and what its turns
    left there is there still, as long as the server keeps it. A turn that was under way is sent
    again with the same message id.

    A task that fails, or that would wait for a person, is a failed turn; the next turn goes on.
    """

    def __init__(self, *, agent_name: str, remote: RemoteAgentPort, ids: IdsPort) -> None:
        self._agent_name = agent_name
        self._remote = remote
        self._ids = ids
        self._context = ""

    @property
    def agent_name(self) -> str:
        """Return the name under which its answers are recorded."""
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
            found = await self._remote.send(message, on_update=self._note)
        except AccError as error:
            return self._response(error=f"{error.code}: {error}")
        self._context = found.context_id or self._context
        if isinstance(found, Message):
            return self._response(message_text(found.parts))
        return await self._of_task(found)

    async def replay_turn(
        self,
        query: EvaluationTurnQuery,
        canonical_memory: Mapping[str, object],
        response: AgentTurnResponse,
    ) -> None:
        """Take up the context of a recorded turn; its server remembers the rest."""
        context = response.trace.get(_CONTEXT)
        if isinstance(context, str) and context:
            self._context = context

    async def _of_task(self, task: Task) -> AgentTurnResponse:
        if task.state in INTERRUPTED:
            with suppress(AccError):  # it is over for us, whatever becomes of it there
                await self._remote.cancel(task.id)
            return self._response(error=f"{task.state}: it waits: {status_text(task)}")
        if task.state is not TaskState.COMPLETED:
            return self._response(error=f"{task.state}: {status_text(task)}")
        return self._response(answer_text(task, answer_artifact(task)), footprint(task))

    async def _note(self, task: Task, update: object) -> None:
        # Should the turn run out of time, the next one belongs to the same conversation.
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
            trace={_CONTEXT: self._context} if self._context else {},
            error=error,
        )


def footprint(task: Task) -> int | None:
    """Return how many tokens of memory a server says its agent was shown, None if it does not."""
    told = task.metadata.get(MEMORY_FOOTPRINT)
    tokens = told.get("tokens") if isinstance(told, Mapping) else None
    is_number = isinstance(tokens, int) and not isinstance(tokens, bool)
    return tokens if is_number and tokens is not None and 0 <= tokens <= _MOST_TOKENS else None


def make_runner(
    agent_name: str, reference: str, *, run_agent: Callable[[str, BaseAgent], AgentRunnerPort]
) -> AgentRunnerPort:
    """Return a runner for an agent of acc, a class with `run_turn`, or a function to an answer.

    A class is made anew for every episode, and so is what a function without arguments returns. A
    function from query to answer is called as it is, and may be async. `run_agent` takes agents.
    """
    target = load_object(reference)
    if isinstance(target, BaseAgent):
        check_is_fresh(target, reference)
    elif inspect.isclass(target) or _makes_agents(target):
        try:
            target = target()
        except Exception as error:
            fault = f"{type(error).__name__}: {error}"
            raise InvalidInput(f"cannot make {reference}: {fault}") from error
    if isinstance(target, BaseAgent):
        return run_agent(agent_name, target)
    answer = getattr(target, "run_turn", None)
    if answer is None and not callable(target):
        raise InvalidInput(
            f"{reference!r} is neither an agent of acc, nor a function, nor a class with run_turn"
        )
    return PythonAgentRunner(agent_name, target, takes_turn=answer is not None)


def _makes_agents(target: object) -> bool:
    """Tell whether an object is a function that takes nothing, so that it can answer nothing."""
    if not inspect.isfunction(target) or inspect.iscoroutinefunction(target):
        return False
    return not inspect.signature(target).parameters


class PythonAgentRunner:
    """Gives anyone's object the name it has in the run."""

    def __init__(self, agent_name: str, target: Any, *, takes_turn: bool) -> None:
        self._agent_name = agent_name
        self._call: Callable[..., Any] = target.run_turn if takes_turn else target
        self._takes_turn = takes_turn
        self._replay: Callable[..., Any] | None = getattr(target, "replay_turn", None)

    @property
    def agent_name(self) -> str:
        """Return the name under which its answers are recorded."""
        return self._agent_name

    async def run_turn(
        self, query: EvaluationTurnQuery, canonical_memory: Mapping[str, object]
    ) -> AgentTurnResponse:
        """Ask the object."""
        arguments = (query, canonical_memory) if self._takes_turn else (query.query,)
        if inspect.iscoroutinefunction(self._call):
            found = await self._call(*arguments)
        else:
            # A plain function may block; in a thread it holds up neither the others nor the clock.
            found = await asyncio.to_thread(self._call, *arguments)
            if inspect.isawaitable(found):
                found = await found
        if isinstance(found, AgentTurnResponse):
            return replace(found, agent_name=self._agent_name)
        if not isinstance(found, str):
            raise TypeError(f"returned {type(found).__name__}, not text")
        return AgentTurnResponse(agent_name=self._agent_name, response_text=found)

    async def replay_turn(
        self,
        query: EvaluationTurnQuery,
        canonical_memory: Mapping[str, object],
        response: AgentTurnResponse,
    ) -> None:
        """Let the object replay the turn; one that cannot is asked again, so that it remembers."""
        if self._replay is not None:
            await self._replay(query, canonical_memory, response)
        elif not response.error:
            await self.run_turn(query, canonical_memory)
