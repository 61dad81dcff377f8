"""Agents of this runtime under evaluation: one tree, one session an episode."""

from collections.abc import Mapping
from dataclasses import replace

import msgspec

from acc.application.agents.base import BaseAgent
from acc.application.agents.llm import LlmAgent, remembers
from acc.application.context import RunResult
from acc.application.runner import SessionRunner
from acc.domain.errors import AccError, InvalidInput, ModelFailed
from acc.domain.value_objects.event import EventKind, RunStatus
from acc.domain.value_objects.live_evaluation import AgentTurnResponse, EvaluationTurnQuery
from acc.domain.value_objects.run import RunConfig
from acc.ports.outbound.memory_ports import MemoryPort
from acc.ports.outbound.model_ports import ModelAnswer, Prompt

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
        self._remembers = remembers(runner.agent)

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
                config, stand_ins=dict.fromkeys((one.name for one in agent.everyone()), _fail)
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
    for one in agent.everyone():
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
