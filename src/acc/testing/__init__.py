"""Test doubles: scripted agents, judges, models and remote agents; clock and ids."""

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
from acc.domain.value_objects.reading import Act, EarlierSentence, Reading
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
from acc.ports.outbound.model_ports import ModelRequest, ModelResponse
from acc.ports.outbound.remote_ports import OnUpdate


def queries(*texts: str) -> list[EvaluationTurnQuery]:
    """Return queries with turn ids 1..T."""
    return [EvaluationTurnQuery(turn_id=n, query=text) for n, text in enumerate(texts, start=1)]


def verdict(
    agent_name: str, *, score: float = 8.0, unsupported: int = 0, violations: int = 0
) -> JudgeAgentEvaluation:
    """Return an evaluation with one supported claim and one active constraint."""
    return JudgeAgentEvaluation(
        agent_name=agent_name,
        outcome=OutcomeScores(
            relevance=score, answer_quality=score, instruction_following=score, coherence=score
        ),
        hallucination=HallucinationAudit(supported_claims=1, unsupported_claims=unsupported),
        drift=DriftAudit(active_constraints=1, violations=violations, omissions=0),
    )


class ScriptedAgent:
    """An evaluated agent that answers from a list and records its queries.

    An entry is an answer, an exception to raise, a number of seconds to sleep, or None to return
    None. `canonical_memories` has the memory passed with each query.
    """

    def __init__(
        self,
        agent_name: str,
        answers: Sequence[str | float | Exception | None],
        *,
        memory_tokens: int | None = 10,
    ) -> None:
        self.agent_name = agent_name
        self.queries: list[EvaluationTurnQuery] = []
        self.canonical_memories: list[Mapping[str, object]] = []
        self.replayed: list[str] = []
        self._answers = list(answers)
        self._memory_tokens = memory_tokens

    async def run_turn(
        self, query: EvaluationTurnQuery, canonical_memory: Mapping[str, object]
    ) -> AgentTurnResponse:
        """Return the next answer of the script."""
        self.queries.append(query)
        self.canonical_memories.append(canonical_memory)
        answer = self._answers[query.turn_id - 1]
        if isinstance(answer, Exception):
            raise answer
        if answer is None:
            return None  # type: ignore[return-value] # an agent that violates its contract
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
        """Record the replayed response."""
        self.canonical_memories.append(canonical_memory)
        self.replayed.append(response.response_text)


class ScriptedJudge:
    """A judge that gives every answer the same evaluation and records its calls.

    With `names` it evaluates these agents instead of those that answered. `faults` are raised by
    the first calls, one per call. `judged` has the names of the agents of each call.
    """

    def __init__(
        self, *, names: Sequence[str] | None = None, faults: Sequence[Exception] = ()
    ) -> None:
        self.canonical_memories: list[Mapping[str, object]] = []
        self.judged: list[tuple[str, ...]] = []
        self._names = names
        self._faults = list(faults)

    async def evaluate_turn(
        self,
        query: EvaluationTurnQuery,
        canonical_memory: Mapping[str, object],
        responses: tuple[AgentTurnResponse, ...],
    ) -> JudgeTurnResult:
        """Return an evaluation for each response, or for the scripted names."""
        if self._faults:
            raise self._faults.pop(0)
        self.canonical_memories.append(canonical_memory)
        names = [r.agent_name for r in responses] if self._names is None else self._names
        self.judged.append(tuple(r.agent_name for r in responses))
        memory = dict(canonical_memory)
        memory[f"turn {query.turn_id}"] = {"query": query.query}
        return JudgeTurnResult(
            canonical_memory=memory, evaluations=tuple(verdict(name) for name in names)
        )


ScriptedResponse = str | ToolCall | Sequence[ToolCall] | ModelResponse | BaseException


def call(name: str, /, **arguments: Any) -> ToolCall:
    """Return a tool call, for the script of a ScriptedModel."""
    return ToolCall(id="", name=name, arguments=arguments)


def last_result(prompt: ModelRequest) -> Any:
    """Return the content of the last tool result in this turn, for use in a script."""
    parts = (part for message in reversed(prompt.following) for part in reversed(message.parts))
    result = next((part.result for part in parts if part.result is not None), None)
    if result is None:
        raise AssertionError(f"the prompt has no tool result: {prompt!r}")
    return result.content


class ScriptedReader:
    """A reader of sentences that follows a table; other sentences do nothing.

    A value is an act, or an act and a text that the earlier sentence it refers to contains.
    """

    def __init__(self, table: Mapping[str, Act | tuple[Act, str]]) -> None:
        self._table = table

    async def read(
        self,
        sentences: Sequence[str],
        earlier: Sequence[EarlierSentence],
        *,
        dialogue: Sequence[str] = (),
    ) -> tuple[Reading, ...]:
        """Return the acts of the table."""
        return tuple(self._reading(sentence, earlier) for sentence in sentences)

    def _reading(self, sentence: str, earlier: Sequence[EarlierSentence]) -> Reading:
        entry = self._table.get(sentence, Act.OTHER)
        act, part = entry if isinstance(entry, tuple) else (entry, "")
        targets = [old.id for old in earlier if part and part in old.text]
        return Reading(
            text=sentence,
            act=act,
            confidence=0.9,
            scores={act: 0.9},
            target=targets[0] if targets else "",
            target_score=0.9 if targets else 0.0,
        )


class ScriptedModel:
    """A model that responds from a list and records its requests.

    An entry is a text, a `call(...)` or a list of them, a ModelResponse, an exception to raise, or
    a function or async function from the prompt to one of these. With `repeat` the last entry is
    used for all further requests.
    """

    def __init__(
        self,
        *responses: ScriptedResponse
        | Callable[[ModelRequest], ScriptedResponse | Awaitable[ScriptedResponse]],
        repeat: bool = False,
    ) -> None:
        for response in responses:
            if not callable(response):
                _check_response(response)
        self.requests: list[ModelRequest] = []
        self._responses = list(responses)
        self._repeat = repeat
        self._calls = 0

    async def complete(self, prompt: ModelRequest) -> ModelResponse:
        """Return the next response of the script."""
        self.requests.append(prompt)
        if not self._responses:
            raise AssertionError(
                f"the script has no response for request {len(self.requests)}: {prompt!r}"
            )
        is_last = self._repeat and len(self._responses) == 1
        response = self._responses[0] if is_last else self._responses.pop(0)
        if callable(response):
            result = response(prompt)
            response = await result if isinstance(result, Awaitable) else result
            _check_response(response)
        return self._to_answer(response)

    async def stream(self, prompt: ModelRequest) -> AsyncIterator[str | ModelResponse]:
        """Yield the next response word by word, then as a whole."""
        answer = await self.complete(prompt)
        for piece in re.findall(r"\S+\s*|\s+", answer.text):
            yield piece
        yield answer

    def _to_answer(self, response: ScriptedResponse) -> ModelResponse:
        if isinstance(response, BaseException):
            raise response
        if isinstance(response, ModelResponse):
            return response
        if isinstance(response, str):
            return ModelResponse(text=response, usage=Usage(output_tokens=len(response.split())))
        calls = (response,) if isinstance(response, ToolCall) else tuple(response)
        return ModelResponse(calls=tuple(self._with_id(item) for item in calls))

    def _with_id(self, item: ToolCall) -> ToolCall:
        self._calls += 1
        return replace(item, id=item.id or f"call-{self._calls}")


def _check_response(response: object) -> None:
    if isinstance(response, str | ToolCall | ModelResponse | BaseException):
        return
    if not isinstance(response, Sequence) or not all(
        isinstance(item, ToolCall) for item in response
    ):
        raise TypeError(
            "a scripted response must be a text, call(...) or a list of them, a ModelResponse, an "
            f"exception, or a function that returns one of these, got {response!r}"
        )


class FrozenClock:
    """A clock that returns the time it was set to."""

    def __init__(self, time: float = 1_000_000.0) -> None:
        self.time = time

    def now(self) -> float:
        """Return the configured time."""
        return self.time


class SequentialIds:
    """Generates the ids id-1, id-2 and so on."""

    def __init__(self, prefix: str = "id") -> None:
        self._prefix = prefix
        self._count = 0

    def new(self) -> str:
        """Return the next id."""
        self._count += 1
        return f"{self._prefix}-{self._count}"


class WordCounter:
    """Counts words, for token numbers that are easy to verify."""

    def count(self, text: str) -> int:
        """Return the number of words in a text."""
        return len(text.split())


class ScriptedRemote:
    """A remote agent that answers from a list and records the messages it was sent.

    An entry is the text of an answer, a task, a message or a list of updates to return, an
    exception to raise, or a number of seconds to sleep. Use it in a run with
    `services.remote = lambda address: remote`.
    """

    def __init__(self, *answers: "RemoteAnswer") -> None:
        self.sent: list[Message] = []
        self.pushes: list[PushConfig | None] = []
        self.canceled: list[str] = []
        self._answers = list(answers)

    async def card(self) -> AgentCard:
        """Return a card with a name only."""
        return AgentCard(name="scripted", description="", version="", interfaces=())

    async def send(
        self,
        message: Message,
        *,
        on_update: OnUpdate | None = None,
        known: Task | None = None,
        push: PushConfig | None = None,
        follow_seconds: float | None = None,
    ) -> Task | Message:
        """Return the next answer of the script at once; `follow_seconds` has no effect."""
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
        for seq, update in enumerate(_updates(answer), start=1):
            task = apply_event(task, TaskEvent(seq, update))
            if on_update is not None:
                await on_update(task, update)
        return task

    async def follow(self, task_id: str, *, on_update: OnUpdate | None = None) -> Task | Message:
        """Return the next answer of the script."""
        return await self.send(
            Message(message_id="", role=Role.USER, parts=(), task_id=task_id), on_update=on_update
        )

    async def get(self, task_id: str) -> Task:
        """Return a task with that id in the state `working`."""
        status = TaskStatus(state=TaskState.WORKING)
        return Task(id=task_id, context_id="context-1", status=status)

    async def cancel(self, task_id: str) -> Task:
        """Record the cancellation of a task."""
        self.canceled.append(task_id)
        status = TaskStatus(state=TaskState.CANCELED)
        return Task(id=task_id, context_id="context-1", status=status)

    def notify(self, task_id: str) -> None:
        """Ignore a notification."""


RemoteUpdates = Sequence[StatusUpdate | ArtifactUpdate]
RemoteAnswer = str | float | Task | Message | RemoteUpdates | Exception


def _updates(answer: str | RemoteUpdates) -> RemoteUpdates:
    if not isinstance(answer, str):
        return answer
    artifact = TaskArtifact(artifact_id="answer", name="answer", parts=(Part(text=answer),))
    done = TaskStatus(state=TaskState.COMPLETED)
    return [ArtifactUpdate(artifact=artifact, last_chunk=True), StatusUpdate(status=done)]
