"""Measure what is still in the view of a memory after other turns: rules, facts and their changes.

Every dialogue of the writers is continued with other turns, without meaning for it. Then a question
about something else is asked, and one about each sentence that was changed, lifted or corrected.

- rule, fact: the sentence is in the view of the question about something else.
- lift: the view of a question about the lifted rule does not have the rule.
- change, correction: that view has the new sentence and not the old one.
- rule hidden: the sentence was shown as a rule in its turn, nobody changed it, and no view has it.
- task as rule, small talk as rule: a request for one answer or small talk is shown as a rule. `in
  state`: as a rule or as a note, which fill the room that is left.
- task turn leaves a rule: a single message that asks for something now, in a new conversation.

A memory that forgets everything passes `lift`, so read it together with `rule`. Intervals of 95 %
are bootstrap intervals over dialogues. Run: python benchmarks/instructions.py [--budget N]
[--turns N] [--writers e15,j13] [--memories acc,bm25]
"""

import argparse
import asyncio
import json
import random
import re
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypedDict

from acc.application.memory.acc import DEFAULT_BUDGET_TOKENS
from acc.application.memory.baselines import RetrievalMemory, TranscriptMemory
from acc.application.memory.messages import count_tokens, part_text
from acc.bootstrap.memory import acc_memory, new_recall_index, token_counter
from acc.domain.value_objects.content import ChatMessage
from acc.domain.value_objects.memory import ConversationTurn, TurnSignal
from acc.ports.outbound.memory_ports import MemoryPort, MemoryView

FOLDER = Path(__file__).parent
DATA = FOLDER.parent / "training" / "reader" / "data"
#: Writers whose texts were used neither for training nor for decisions.
HELD_OUT = ("e12", "e15", "e17", "e21", "e24", "j12", "j13", "j15", "j16", "j17")
FILLER = {"e": "english_filler.txt", "j": "japanese_filler.txt"}
NEUTRAL = {"e": "By the way, what should I cook tonight?", "j": "ところで、今夜は何を作ろうか？"}
TOPIC = {"e": "What did I say about {}?", "j": "{}について何と言いましたか？"}
ROWS = (
    "rule",
    "lift",
    "change",
    "correction",
    "fact",
    "rule hidden",
    "task as rule",
    "task in state",
    "small talk as rule",
    "small talk in state",
    "task turn leaves a rule",
)
BOOTSTRAP = 2_000
_ENGLISH_WORD = re.compile(r"[A-Za-z0-9][\w'-]{3,}")
_JAPANESE_WORD = re.compile(r"[一-龠々ァ-ヶーA-Za-z0-9]{2,}")


class Dialogue(TypedDict):
    """The user's turns, the labels of their sentences, and what these refer to."""

    turns: list[list[str]]
    labels: list[list[str]]
    refs: list[tuple[int, int, int, int]]


class Retrieval:
    """BM25 with as many messages as fit into the budget."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._memory = RetrievalMemory(index=new_recall_index(), tokens=token_counter(), top=48)

    async def view(self, signal: TurnSignal) -> MemoryView:
        found = await self._memory.view(signal)
        used = 0
        messages: list[ChatMessage] = []
        for message in found.messages:
            size = count_tokens(message, token_counter().count)
            if used + size <= self._budget:
                used += size
                messages.append(message)
        return MemoryView(messages=tuple(messages), tokens=used)

    async def record(self, turn: ConversationTurn) -> None:
        await self._memory.record(turn)


MEMORIES: Mapping[str, Callable[[int], MemoryPort]] = {
    "acc": lambda budget: acc_memory(budget=budget),
    "bm25": Retrieval,
    "last-n": lambda budget: TranscriptMemory(tokens=token_counter(), window=budget),
    "transcript": lambda _: TranscriptMemory(tokens=token_counter(), window=1_000_000),
}


def plain(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip().casefold()


def content(view: MemoryView) -> str:
    parts = (part_text(part) for message in view.messages for part in message.parts)
    return plain("\n".join((view.text, *parts)))


def topic(text: str, language: str) -> str:
    """Return a question about the content of a sentence that repeats none of its wording."""
    pattern = _ENGLISH_WORD if language == "e" else _JAPANESE_WORD
    words = pattern.findall(text)[:6] or [text[:8]]
    return TOPIC[language].format((", " if language == "e" else "、").join(words))


async def run_dialogue(
    memory: MemoryPort, dialogue: Dialogue, language: str, others: list[str]
) -> dict[str, list[bool]]:
    """Return the outcomes of one dialogue by row."""
    turn = 0
    first_rules: list[str] = []
    for texts in dialogue["turns"]:
        turn += 1
        answer = "OK." if language == "e" else "わかりました。"
        first_rules.append(rules_of(await add_turn(memory, turn, "\n".join(texts), answer)))
    for text in others:
        turn += 1
        await add_turn(memory, turn, text, "I see." if language == "e" else "そうですか。")
    view = await memory.view(TurnSignal(turn_id=turn + 1, text=NEUTRAL[language]))
    shown, state = content(view), plain(view.text)
    replaced = {(c, d) for _, _, c, d in dialogue["refs"]}
    found: dict[str, list[bool]] = defaultdict(list)
    rows = {"set": "rule", "state": "fact", "once": "task", "other": "small talk"}
    for i, (texts, labels) in enumerate(zip(dialogue["turns"], dialogue["labels"], strict=True)):
        for j, (text, label) in enumerate(zip(texts, labels, strict=True)):
            if label not in rows or (i, j) in replaced:
                continue
            row, sentence = rows[label], plain(text)
            if row in ("rule", "fact"):
                found[row].append(sentence in shown)
            else:
                found[f"{row} as rule"].append(sentence in rules_of(view))
                found[f"{row} in state"].append(sentence in state)
            if row == "rule" and sentence in first_rules[i]:
                found["rule hidden"].append(sentence not in shown)
    for a, b, c, d in dialogue["refs"]:
        old, new, label = dialogue["turns"][c][d], dialogue["turns"][a][b], dialogue["labels"][a][b]
        about = TurnSignal(turn_id=turn + 1, text=topic(old, language))
        shown = content(await memory.view(about))
        # A memory may show the old sentence with the one that replaces it.
        gone = plain(old) not in shown.replace(f"(instead of: {plain(old)})", "")
        if label == "lift":
            found["lift"].append(gone)
        else:
            row = "change" if label == "change" else "correction"
            found[row].append(gone and plain(new) in shown)
    return found


async def add_turn(memory: MemoryPort, turn: int, text: str, answer: str) -> MemoryView:
    view = await memory.view(TurnSignal(turn_id=turn, text=text))
    await memory.record(ConversationTurn.of(turn, text, answer))
    return view


def rules_of(view: MemoryView) -> str:
    """Return the rules that a view shows."""
    prefix = "constraints: "
    lines = [line for line in view.text.splitlines() if line.startswith(prefix)]
    return plain(" ".join(lines))


async def rules_of_single_messages(writer: str, name: str, budget: int) -> list[list[bool]]:
    """Return for each request for now whether it leaves a rule."""
    found: list[list[bool]] = []
    for line in (DATA / writer / "sentences.tsv").read_text(encoding="utf-8").splitlines():
        label, _, text = line.partition("\t")
        if label in ("once", "other"):
            memory = MEMORIES[name](budget)
            view = await add_turn(memory, 1, text, "OK.")
            found.append([bool(rules_of(view))])
    return found


def interval(outcomes: list[list[bool]]) -> str:
    """Return the share over all outcomes and its bootstrap interval over dialogues."""
    groups = [group for group in outcomes if group]
    if not groups:
        return "-"
    draw = random.Random(2)  # noqa: S311 - not for security
    shares = sorted(
        statistics.fmean(x for group in draw.choices(groups, k=len(groups)) for x in group)
        for _ in range(BOOTSTRAP)
    )
    mean = statistics.fmean(x for group in groups for x in group)
    return f"{mean:.2f} [{shares[BOOTSTRAP // 40]:.2f}, {shares[-BOOTSTRAP // 40]:.2f}]"


async def measure(writer: str, name: str, budget: int, turns: int) -> dict[str, str]:
    language = writer[0]
    lines = (DATA / writer / "dialogues.jsonl").read_text(encoding="utf-8").splitlines()
    filler = (FOLDER / "recall_material" / FILLER[language]).read_text("utf-8").splitlines()
    outcomes: dict[str, list[list[bool]]] = defaultdict(list)
    for number, line in enumerate(lines):
        draw = random.Random(number)  # noqa: S311 - not for security
        others = [draw.choice(filler) for _ in range(turns)]
        memory = MEMORIES[name](budget)
        for row, values in (await run_dialogue(memory, json.loads(line), language, others)).items():
            outcomes[row].append(values)
    outcomes["task turn leaves a rule"] = await rules_of_single_messages(writer, name, budget)
    return {row: interval(outcomes[row]) for row in ROWS}


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", type=int, default=512, help="tokens of the view (512)")
    parser.add_argument("--turns", type=int, default=59, help="other turns (59)")
    parser.add_argument("--writers", default=",".join(HELD_OUT))
    parser.add_argument("--memories", default=",".join(MEMORIES))
    options = parser.parse_args()
    print(
        f"views of {options.budget} tokens after {options.turns} other turns"
        f" (transcript: unlimited; default budget of acc: {DEFAULT_BUDGET_TOKENS})"
    )
    for writer in options.writers.split(","):
        print(f"writer {writer}:")
        for name in options.memories.split(","):
            rows = await measure(writer, name, options.budget, options.turns)
            print(f"  {name}", *(f"{row}: {value}" for row, value in rows.items()), sep="\n    ")


if __name__ == "__main__":
    asyncio.run(main())
