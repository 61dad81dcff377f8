"""Doubles we ship, for tests of your own: scripted agents, judges and models."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from acc.domain.value_objects.agent_card import AgentCard
from acc.domain.value_objects.content import Part, ToolCall, Usage
from acc.domain.value_objects.evaluation import DriftAudit, HallucinationAudit, OutcomeScores
from acc.domain.value_objects.live_evaluation import (
    AgentTurnResponse,
    EvaluationTurnQuery,
    JudgeAgentEvaluation,
    JudgeTurnResult,
)
from acc.domain.value_objects.task import (
    ArtifactUpdate,
    Message,
    PushConfig,
    Role,
    StatusUpdate,
    Task,
    TaskArtifact,
    TaskEvent,
    TaskState,
    TaskStatus,
    apply_event,
)
from acc.ports.outbound.model_ports import ModelAnswer, Prompt
from acc.ports.outbound.remote_ports import Hear


def queries(*texts: str) -> list[EvaluationTurnQuery]:
    """Return queries with turn ids 1..T."""
    return [EvaluationTurnQuery(turn_id=n, query=text) for n, text in enumerate(texts, start=1)]


def verdict(
    agent_name: str, *, score: float = 8.0, unsupported: int = 0, violations: int = 0
) -> JudgeAgentEvaluation:
    """Return a plain verdict: one supported claim, one active constraint."""
    return JudgeAgentEvaluation(
        agent_name=agent_name,
        outcome=OutcomeScores(
            relevance=score, answer_quality=score, instruction_following=score, coherence=score
        ),
        hallucination=HallucinationAudit(supported_claims=1, unsupported_claims=unsupported),
        drift=DriftAudit(active_constraints=1, violations=violations, omissions=0),
    )


class ScriptedAgent:
    """Answers from a list and keeps what it was asked.

    An exception in the list is raised, a number is slept through, None is returned as it is.
    """

    def __init__(
        self,
        agent_name: str,
        answers: Sequence[str | float | Exception | None],
        *,
        memory_tokens: int | None = 10,
    ) -> None:
        self.agent_name = agent_name
        self.asked: list[EvaluationTurnQuery] = []
        self.seen: list[Mapping[str, object]] = []
        self.replayed: list[str] = []
        self._answers = list(answers)
        self._memory_tokens = memory_tokens

    async def run_turn(
        self, query: EvaluationTurnQuery, canonical_memory: Mapping[str, object]
    ) -> AgentTurnResponse:
        """Return the next answer of the script."""
        self.asked.append(query)
        self.seen.append(canonical_memory)
        answer = self._answers[query.turn_id - 1]
        if isinstance(answer, Exception):
            raise answer
        if answer is None:
            return None  # type: ignore[return-value] # an agent that breaks its contract
        if not isinstance(answer, str):
            await asyncio.sleep(answer)
            answer = f"slept {answer} s"
        return AgentTurnResponse(
            agent_name=self.agent_name, response_text=answer, memory_tokens=self._memory_tokens
        )

    async def replay_turn(
        self,
        query: EvaluationTurnQuery,
        canonical_memory: Mapping[str, object],
        response: AgentTurnResponse,
    ) -> None:
        """Keep what was replayed."""
        self.seen.append(canonical_memory)
        self.replayed.append(response.response_text)


class ScriptedJudge:
    """Gives every answer the same verdict and remembers the queries.

    `names` makes it answer for others than it was asked about; `faults` are raised first, one a
    call.
    """

    def __init__(
        self, *, names: Sequence[str] | None = None, faults: Sequence[Exception] = ()
    ) -> None:
        self.seen: list[Mapping[str, object]] = []
        self.judged: list[tuple[str, ...]] = []
        self._names = names
        self._faults = list(faults)

    async def evaluate_turn(
        self,
        query: EvaluationTurnQuery,
        canonical_memory: Mapping[str, object],
        responses: tuple[AgentTurnResponse, ...],
    ) -> JudgeTurnResult:
        """Return a verdict for each response, or for the scripted names."""
        if self._faults:
            raise self._faults.pop(0)
        self.seen.append(canonical_memory)
        names = [r.agent_name for r in responses] if self._names is None else self._names
        self.judged.append(tuple(r.agent_name for r in responses))
        remembered = dict(canonical_memory)
        remembered[f"turn {query.turn_id}"] = {"query": query.query}
        return JudgeTurnResult(
            canonical_memory=remembered, evaluations=tuple(verdict(name) for name in names)
        )


Scripted = str | ToolCall | Sequence[ToolCall] | ModelAnswer | BaseException


def call(name: str, /, **arguments: Any) -> ToolCall:
    """Return a tool call, for the script of a ScriptedModel."""
    return ToolCall(id="", name=name, arguments=arguments)


def last_result(prompt: Prompt) -> Any:
    """Return what the last tool gave back, for a script that answers with it."""
    parts = (part for message in reversed(prompt.messages) for part in reversed(message.parts))
    result = next((part.result for part in parts if part.result is not None), None)
    if result is None:
        raise AssertionError(f"no tool has been called yet: {prompt!r}")
    return result.content


class ScriptedModel:
    """Answers from a list and keeps what it was asked.

    An entry is the text to say, a `call(...)` or several of them, a whole ModelAnswer, an exception
    to raise, or a function, plain or async, from the prompt to one of these. With `repeat` the last
    one stays.
    """

    def __init__(
        self,
        *answers: Scripted | Callable[[Prompt], Scripted | Awaitable[Scripted]],
        repeat: bool = False,
    ) -> None:
        for answer in answers:
            if not callable(answer):
                _check_scripted(answer)
        self.asked: list[Prompt] = []
        self._answers = list(answers)
        self._repeat = repeat
        self._calls = 0

    async def complete(self, prompt: Prompt) -> ModelAnswer:
        """Return the next answer of the script."""
        self.asked.append(prompt)
        if not self._answers:
            raise AssertionError(f"the script ends before question {len(self.asked)}: {prompt!r}")
        keep = self._repeat and len(self._answers) == 1
        answer = self._answers[0] if keep else self._answers.pop(0)
        if callable(answer):
            found = answer(prompt)
            answer = await found if isinstance(found, Awaitable) else found
            _check_scripted(answer)
        return self._as_answer(answer)

    async def stream(self, prompt: Prompt) -> AsyncIterator[str | ModelAnswer]:
        """Give the next answer word by word, then as a whole."""
        answer = await self.complete(prompt)
        for piece in re.findall(r"\S+\s*|\s+", answer.text):
            yield piece
        yield answer

    def _as_answer(self, answer: Scripted) -> ModelAnswer:
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, ModelAnswer):
            return answer
        if isinstance(answer, str):
            return ModelAnswer(text=answer, usage=Usage(output_tokens=len(answer.split())))
        calls = (answer,) if isinstance(answer, ToolCall) else tuple(answer)
        return ModelAnswer(calls=tuple(self._numbered(item) for item in calls))

    def _numbered(self, item: ToolCall) -> ToolCall:
        self._calls += 1
        return replace(item, id=item.id or f"call-{self._calls}")


def _check_scripted(answer: object) -> None:
    if isinstance(answer, str | ToolCall | ModelAnswer | BaseException):
        return
    if not isinstance(answer, Sequence) or not all(isinstance(one, ToolCall) for one in answer):
        raise TypeError(
            "a script answers with text, call(...) or a list of them, a ModelAnswer, an exception, "
            f"or a function to one of these, not {answer!r}"
        )


class FrozenClock:
    """Shows the time it was set to."""

    def __init__(self, time: float = 1_000_000.0) -> None:
        self.time = time

    def now(self) -> float:
        """Return the time it shows."""
        return self.time


class SequentialIds:
    """Makes ids by counting: id-1, id-2 and so on."""

    def __init__(self, prefix: str = "id") -> None:
        self._prefix = prefix
        self._count = 0

    def new(self) -> str:
        """Return the next."""
        self._count += 1
        return f"{self._prefix}-{self._count}"


class WordCounter:
    """Counts words, where a test wants numbers that can be checked by eye."""

    def count(self, text: str) -> int:
        """Return how many words `text` has."""
        return len(text.split())


class ScriptedRemote:
    """A remote agent that answers from a list and keeps what it was sent.

    A text is an answer; a task, a message or a list of updates is told as it is; an exception is
    raised; a number is slept through, so that it can be cancelled. Give it to a run with
    `services.remote = lambda address: remote`.
    """

    def __init__(self, *answers: "RemoteAnswer") -> None:
        self.sent: list[Message] = []
        self.pushes: list[PushConfig | None] = []
        self.canceled: list[str] = []
        self._answers = list(answers)

    async def card(self) -> AgentCard:
        """Return a card with a name and no more."""
        return AgentCard(name="scripted", description="", version="", interfaces=())

    async def send(
        self,
        message: Message,
        *,
        hear: Hear | None = None,
        known: Task | None = None,
        push: PushConfig | None = None,
    ) -> Task | Message:
        """Return what the script says."""
        self.sent.append(message)
        self.pushes.append(push)
        answer = self._answers.pop(0)
        task_id = message.task_id or f"task-{len(self.sent)}"
        context_id = message.context_id or "context-1"
        task = Task(id=task_id, context_id=context_id, status=TaskStatus(state=TaskState.SUBMITTED))
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, int | float):
            await asyncio.sleep(answer)
            answer = "late"
        if isinstance(answer, Task | Message):
            return answer
        for seq, update in enumerate(_told(answer), start=1):
            task = apply_event(task, TaskEvent(seq, update))
            if hear is not None:
                await hear(task, update)
        return task

    async def follow(self, task_id: str, *, hear: Hear | None = None) -> Task | Message:
        """Return what the script says next."""
        return await self.send(
            Message(message_id="", role=Role.USER, parts=(), task_id=task_id), hear=hear
        )

    async def get(self, task_id: str) -> Task:
        """Return a task of that id that is being worked on."""
        status = TaskStatus(state=TaskState.WORKING)
        return Task(id=task_id, context_id="context-1", status=status)

    async def cancel(self, task_id: str) -> Task:
        """Note that the task was canceled."""
        self.canceled.append(task_id)
        status = TaskStatus(state=TaskState.CANCELED)
        return Task(id=task_id, context_id="context-1", status=status)

    def notified(self, task_id: str) -> None:
        """Do nothing: the script has no news."""


RemoteUpdates = Sequence[StatusUpdate | ArtifactUpdate]
RemoteAnswer = str | float | Task | Message | RemoteUpdates | Exception


def _told(answer: str | RemoteUpdates) -> RemoteUpdates:
    if not isinstance(answer, str):
        return answer
    made = TaskArtifact(artifact_id="answer", name="answer", parts=(Part(text=answer),))
    done = TaskStatus(state=TaskState.COMPLETED)
    return [ArtifactUpdate(artifact=made, last_chunk=True), StatusUpdate(status=done)]
