"""Agents of other servers under evaluation: one context an episode, one message a turn."""

from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256

from acc.application.agents.remote_answers import (
    answer_artifact,
    answer_text,
    parts_text,
    status_text,
)
from acc.application.serving.telling import MEMORY_FOOTPRINT
from acc.domain.errors import AccError
from acc.domain.value_objects.event import text_part
from acc.domain.value_objects.live_evaluation import AgentTurnResponse, EvaluationTurnQuery
from acc.domain.value_objects.task import INTERRUPTED, Message, Role, Task, TaskState
from acc.ports.outbound.remote_ports import RemoteAgentPort
from acc.ports.outbound.runtime_ports import IdsPort

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
            found = await self._remote.send(message, hear=self._note)
        except AccError as error:
            return self._response(error=f"{error.code}: {error}")
        self._context = found.context_id or self._context
        if isinstance(found, Message):
            return self._response(parts_text(found.parts))
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
