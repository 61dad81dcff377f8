"""Measure memories on recorded conversations: evidence in the view, answers, tokens and time."""

import random
import re
import time
import unicodedata
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import partial

from acc.application.memory.messages import part_text
from acc.domain.errors import InvalidInput
from acc.domain.segmentation import split_message
from acc.domain.statistics import RESAMPLES, percentile
from acc.domain.value_objects.base import Value
from acc.domain.value_objects.content import ChatMessage, text_part
from acc.domain.value_objects.memory import ConversationTurn, TurnSignal
from acc.domain.value_objects.recorded_conversation import (
    RecordedConversation,
    RecordedMessage,
    RecordedQuestion,
)
from acc.ports.outbound.memory_ports import MemoryPort, MemoryView, RestorableMemoryPort
from acc.ports.outbound.model_ports import LanguageModelPort, ModelRequest

_INSTRUCTION = (
    "Answer the question from your memory of the conversation in as few words as possible. If the "
    "memory does not contain the answer, answer: not known."
)
_ALL = "all"
_WORD = re.compile(r"[^\W_\u3041-\u30ff\u3400-\u9fff]+|[\u3041-\u30ff\u3400-\u9fff]")
_ARTICLES = frozenset({"a", "an", "the"})


class Result(Value, frozen=True, kw_only=True):
    """One question with one memory and budget.

    `recall` is the share of the evidence in the view, None without evidence. `f1` compares the
    answer of a model with the expected one, None without a model or an expected answer.
    """

    memory: str
    budget: int
    conversation: str
    question: str
    kind: str
    recall: float | None
    tokens: int
    milliseconds: float
    f1: float | None = None
    answer: str = ""


class Summary(Value, frozen=True, kw_only=True):
    """Means over the questions of a kind, with 95 % intervals over conversations."""

    memory: str
    budget: int
    kind: str
    questions: int
    recall: float | None
    recall_interval: tuple[float, float] | None
    f1: float | None
    f1_interval: tuple[float, float] | None
    tokens: float
    milliseconds: float


async def measure_memories(
    conversations: Sequence[RecordedConversation],
    *,
    memories: Sequence[str],
    budgets: Sequence[int],
    create: Callable[[str], MemoryPort],
    model: LanguageModelPort | None = None,
) -> AsyncIterator[Result]:
    """Yield the results of all memories and budgets; `create` gets names such as `acc@512`."""
    for name in memories:
        if name.partition("@")[0] in ("oracle", "full"):
            raise InvalidInput(f"the memory {name!r} has no budget and cannot be measured here")
        for budget in budgets:
            create(f"{name}@{budget}")  # rejects an unknown name and an invalid budget
    for name in memories:
        for budget in budgets:
            source = partial(create, f"{name}@{budget}")
            async for result in _measure_memory(name, budget, source, conversations, model=model):
                yield result


async def _measure_memory(
    name: str,
    budget: int,
    create: Callable[[], MemoryPort],
    conversations: Iterable[RecordedConversation],
    *,
    model: LanguageModelPort | None = None,
) -> AsyncIterator[Result]:
    """Yield the results of a memory, question by question.

    A memory gets the conversation turn by turn, as in a session. A question leaves no trace.
    """
    for conversation in conversations:
        memory = create()
        turns = _turns(conversation.messages)
        for turn in turns:
            first = turn.messages[0]
            await memory.view(
                TurnSignal(turn_id=turn.turn_id, text=first.text, author=first.author)
            )
            await memory.record(turn)
        texts = {message.id: message.text for message in conversation.messages}
        restorable = memory if isinstance(memory, RestorableMemoryPort) else None
        state = restorable.snapshot() if restorable else {}
        for question in conversation.questions:
            if restorable:
                restorable.restore(state)
            started = time.process_time()
            view = await memory.view(TurnSignal(turn_id=len(turns) + 1, text=question.text))
            seconds = time.process_time() - started
            answer = "" if model is None else await _ask(model, question, view)
            yield Result(
                memory=name,
                budget=budget,
                conversation=conversation.id,
                question=question.id,
                kind=question.kind,
                recall=evidence_share(view, [texts[one] for one in question.evidence]),
                tokens=view.tokens,
                milliseconds=1_000 * seconds,
                f1=answer_f1(answer, question.answer) if model and question.answer else None,
                answer=answer,
            )


def evidence_share(view: MemoryView, evidence: Sequence[str]) -> float | None:
    """Return the share of the sentences of the evidence that a view contains."""
    if not evidence:
        return None
    parts = [part_text(part) for message in view.messages for part in message.parts]
    shown = _plain("\n".join([view.text, *parts]))
    shares = []
    for text in evidence:
        sentences = [_plain(one.text) for one in split_message(text)] or [_plain(text)]
        shares.append(sum(one in shown for one in sentences) / len(sentences))
    return sum(shares) / len(shares)


def answer_f1(answer: str, expected: str) -> float:
    """Return the F1 measure of the words of two answers; Japanese characters count as words."""
    given, wanted = Counter(_words(answer)), Counter(_words(expected))
    common = (given & wanted).total()
    return 2 * common / (given.total() + wanted.total()) if common else 0.0


def summarize(results: Sequence[Result], *, seed: int = 0) -> list[Summary]:
    """Return the means by memory, budget and kind of question; the kind "all" comes first."""
    groups: dict[tuple[str, int, str], list[Result]] = defaultdict(list)
    for result in results:
        groups[result.memory, result.budget, _ALL].append(result)
    for result in results:
        if result.kind != _ALL:
            groups[result.memory, result.budget, result.kind].append(result)
    summaries = []
    for (memory, budget, kind), group in groups.items():
        recall = [(r.conversation, r.recall) for r in group if r.recall is not None]
        f1 = [(r.conversation, r.f1) for r in group if r.f1 is not None]
        summaries.append(
            Summary(
                memory=memory,
                budget=budget,
                kind=kind,
                questions=len(group),
                recall=_mean(recall),
                recall_interval=_interval(recall, seed),
                f1=_mean(f1),
                f1_interval=_interval(f1, seed),
                tokens=sum(r.tokens for r in group) / len(group),
                milliseconds=sum(r.milliseconds for r in group) / len(group),
            )
        )
    return summaries


def _turns(messages: Sequence[RecordedMessage]) -> list[ConversationTurn]:
    """Return messages as turns. A turn starts at each user message, or at the first message."""
    groups: list[list[RecordedMessage]] = []
    for message in messages:
        if message.role == "user" or not groups:
            groups.append([])
        groups[-1].append(message)
    return [
        ConversationTurn(
            turn_id=number,
            messages=tuple(
                ChatMessage(role=one.role, author=one.speaker, parts=text_part(one.text))
                for one in group
            ),
            at=group[0].at,
        )
        for number, group in enumerate(groups, 1)
    ]


async def _ask(model: LanguageModelPort, question: RecordedQuestion, view: MemoryView) -> str:
    request = ModelRequest.of(
        question.text, memory=view.text, earlier=view.messages, instruction=_INSTRUCTION
    )
    return (await model.complete(request)).text


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _words(text: str) -> list[str]:
    return [word for word in _WORD.findall(_plain(text)) if word not in _ARTICLES]


def _mean(values: Sequence[tuple[str, float]]) -> float | None:
    return sum(value for _, value in values) / len(values) if values else None


def _interval(values: Sequence[tuple[str, float]], seed: int) -> tuple[float, float] | None:
    """Return a bootstrap interval over conversations; None with fewer than two of them."""
    groups: dict[str, list[float]] = defaultdict(list)
    for conversation, value in values:
        groups[conversation].append(value)
    sums = [(sum(group), len(group)) for group in groups.values()]
    if len(sums) < 2:
        return None
    draw = random.Random(seed)  # noqa: S311 - a bootstrap
    means = []
    for _ in range(RESAMPLES):
        sample = draw.choices(sums, k=len(sums))
        means.append(sum(total for total, _ in sample) / sum(count for _, count in sample))
    means.sort()
    return percentile(means, 0.025), percentile(means, 0.975)
