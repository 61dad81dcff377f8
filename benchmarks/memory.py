"""Measure recall: what it finds again, and what it costs. `make bench-memory` runs everything.

The conversations consist of the dialogues and of the small talk in `recall_material`. All were
written for this benchmark. The rules were chosen with the development part; the held-out part has
other dialogues. Arguments: `quality` or `cost` for one of the two; `--development` to measure with
the development part.
"""

import argparse
import asyncio
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from measurement import Measurement

from acc.adapters.memory.recall import InMemoryRecallIndex
from acc.adapters.storage.sqlite import SqliteDatabase
from acc.adapters.storage.sqlite_recall import SqliteRecallIndex
from acc.adapters.system.stemmer import SnowballStemmer
from acc.bootstrap.memory import token_counter
from acc.domain.recall import TermExtractor
from acc.domain.value_objects.memory import Match, Passage
from acc.domain.value_objects.session import SessionKey
from acc.ports.outbound.memory_ports import RecallIndexPort

MATERIAL = Path(__file__).parent / "recall_material"
BUDGETS = (256, 512, 1_024)
CONVERSATIONS = 6
MESSAGES = 400
TERMS = TermExtractor(SnowballStemmer())


class Question(NamedTuple):
    text: str
    #: The messages that contain the answer.
    evidence: frozenset[int]


class Conversation(NamedTuple):
    messages: list[str]
    questions: list[Question]


class Ranking(Protocol):
    """Ranks the messages of a conversation for a question."""

    async def rank(self, conversation: Conversation, question: str) -> Sequence[int]: ...


def read_dialogues(name: str) -> list[Conversation]:
    dialogues: list[Conversation] = []
    for block in (MATERIAL / f"{name}.txt").read_text(encoding="utf-8").split("\n\n"):
        dialogue = Conversation([], [])
        for line in block.splitlines():
            if line.startswith("? "):
                text, _, numbers = line[2:].rpartition("|")
                evidence = frozenset(int(number) - 1 for number in numbers.split(","))
                dialogue.questions.append(Question(text.strip(), evidence))
            elif line and not line.startswith("#"):
                dialogue.messages.append(line.partition(": ")[2])
        dialogues.append(dialogue)
    return dialogues


def compose(
    dialogues: Iterable[Conversation], small_talk: Sequence[str], draw: random.Random, size: int
) -> Conversation:
    """Return a conversation of about `size` messages with the dialogues in random order."""
    parts = list(dialogues)
    draw.shuffle(parts)
    gap = (size - sum(len(part.messages) for part in parts)) / len(parts)
    result = Conversation([], [])
    for part in parts:
        start = draw.randrange(len(small_talk))
        for number in range(max(0, round(draw.gauss(gap, gap / 3)))):
            result.messages.append(small_talk[(start + number) % len(small_talk)])
        first = len(result.messages)
        result.messages.extend(part.messages)
        for text, evidence in part.questions:
            result.questions.append(Question(text, frozenset(first + n for n in evidence)))
    return result


def conversations(languages: Sequence[str], part: str) -> list[Conversation]:
    dialogues = [dialogue for name in languages for dialogue in read_dialogues(f"{name}_{part}")]
    small_talk = [
        line
        for name in languages
        for line in (MATERIAL / f"{name}_filler.txt").read_text(encoding="utf-8").splitlines()
    ]
    draw = random.Random(5)  # noqa: S311 - variety
    return [compose(dialogues, small_talk, draw, MESSAGES) for _ in range(CONVERSATIONS)]


class Recall:
    def __init__(self) -> None:
        self._indexes: dict[int, RecallIndexPort] = {}

    async def matches(self, conversation: Conversation, question: str) -> Sequence[Match]:
        index = self._indexes.get(id(conversation))
        if index is None:
            index = self._indexes[id(conversation)] = InMemoryRecallIndex(terms=TERMS)
            await index.add(
                [
                    Passage(id=str(number), turn_id=number, text=text)
                    for number, text in enumerate(conversation.messages)
                ]
            )
        return await index.search(question, limit=100)

    async def rank(self, conversation: Conversation, question: str) -> Sequence[int]:
        return [int(match.passage.id) for match in await self.matches(conversation, question)]


class Words:
    """Ranks by the words alone, each message for itself: plain BM25."""

    def __init__(self) -> None:
        self._recall = Recall()

    async def rank(self, conversation: Conversation, question: str) -> Sequence[int]:
        found = await self._recall.matches(conversation, question)
        ranked = sorted((m for m in found if m.words), key=lambda m: m.words, reverse=True)
        return [int(match.passage.id) for match in ranked]


class Newest:
    async def rank(self, conversation: Conversation, question: str) -> Sequence[int]:
        return range(len(conversation.messages))[::-1]


async def found_shares(
    ranking: Ranking, cases: Sequence[Conversation], budgets: Sequence[int]
) -> list[float]:
    """Return the mean share of the evidence that fits into each budget, best messages first."""
    count = token_counter().count
    shares: dict[int, list[float]] = {budget: [] for budget in budgets}
    for case in cases:
        for question, evidence in case.questions:
            order = await ranking.rank(case, question)
            for budget in budgets:
                used, seen = 0, set()
                for position in order:
                    used += count(f"user: {case.messages[position]}\n")
                    if used > budget:
                        break
                    seen.add(position)
                shares[budget].append(len(seen & evidence) / len(evidence))
    return [statistics.mean(shares[budget]) for budget in budgets]


def bench_quality(part: str) -> list[Measurement]:
    print(f"evidence among the best messages of {', '.join(map(str, BUDGETS))} tokens, {part}:")
    for name, languages in (
        ("English", ["english"]),
        ("Japanese", ["japanese"]),
        ("mixed", ["english", "japanese"]),
    ):
        cases = conversations(languages, part)
        rankings: dict[str, Ranking] = {
            "recall": Recall(),
            "words only": Words(),
            "newest": Newest(),
        }
        for label, ranking in rankings.items():
            shares = asyncio.run(found_shares(ranking, cases, BUDGETS))
            print(f"  {name:9}{label:11}", *(f"{share:6.3f}" for share in shares))
    return []


def vocabulary(size: int) -> list[str]:
    """Return pronounceable words, short ones first."""
    draw = random.Random(1)  # noqa: S311 - variety
    words: set[str] = set()
    while len(words) < size:
        syllables = [
            draw.choice(("b", "br", "ch", "d", "f", "gr", "k", "l", "m", "p", "st", "t", "w"))
            + draw.choice(("a", "e", "i", "o", "u", "ea", "ou"))
            + draw.choice(("", "n", "r", "s", "ck", "ng", "l"))
            for _ in range(draw.choice((1, 2, 2, 2, 3)))
        ]
        words.add("".join(syllables))
    return sorted(words, key=lambda word: (len(word), word))


VOCABULARY = vocabulary(30_000)


def sentence(draw: random.Random, words: int) -> str:
    """Return words whose frequencies follow Zipf's law, and stop words between them."""
    size = len(VOCABULARY)
    content = [VOCABULARY[min(size - 1, int(size ** draw.random()))] for _ in range(words)]
    return " ".join(f"{word} {draw.choice(('the', 'of', 'to', 'and', 'is'))}" for word in content)


def passages(count: int, *, seed: int = 3) -> list[Passage]:
    draw = random.Random(seed)  # noqa: S311 - variety
    return [
        Passage(id=f"t{n}", turn_id=n, text=sentence(draw, draw.randint(4, 16)), order=n)
        for n in range(count)
    ]


def questions() -> list[str]:
    draw = random.Random(9)  # noqa: S311 - variety
    return [sentence(draw, 8) for _ in range(150)]


async def query_milliseconds(index: RecallIndexPort) -> float:
    times: list[float] = []
    for question in questions():
        started = time.process_time()
        await index.search(question, limit=20)
        times.append((time.process_time() - started) * 1000)
    return statistics.median(times)


async def add_milliseconds(index: RecallIndexPort, added: Sequence[Passage]) -> float:
    """Return the mean time per passage; one call adds a question and its answer."""
    started = time.process_time()
    for first in range(0, len(added), 2):
        await index.add(added[first : first + 2])
    return (time.process_time() - started) / len(added) * 1000


def sqlite_index(database: SqliteDatabase, session: int) -> SqliteRecallIndex:
    key = SessionKey(app_name="bench", user_id="ann", session_id=str(session))
    return SqliteRecallIndex(database, key=key, name="m", terms=TERMS)


async def cost_of(name: str, index: RecallIndexPort, count: int) -> list[Measurement]:
    added = await add_milliseconds(index, passages(count))
    limit = {1_000: 1.0, 100_000: 5.0}.get(count, 0.0)
    query = await query_milliseconds(index)
    return [
        Measurement(f"add a message, {count:,} in {name}", added, 0, "ms CPU"),
        Measurement(f"query among {count:,} messages in {name}", query, limit, "ms CPU"),
    ]


async def cost_of_sessions(folder: Path, sessions: int, count: int) -> list[Measurement]:
    """Compare a session in a file of its own with the same session among many."""
    alone, crowded = SqliteDatabase(folder / "alone.db"), SqliteDatabase(folder / "crowded.db")
    added = passages(count)
    await sqlite_index(alone, 0).add(added)
    for session in range(sessions):
        await sqlite_index(crowded, session).add(added)
    rounds: list[float] = []
    for session in range(0, sessions, sessions // 8):
        among_many = await query_milliseconds(sqlite_index(crowded, session))
        rounds.append(among_many / await query_milliseconds(sqlite_index(alone, 0)))
    more = passages(count, seed=4)
    fresh = [Passage(id=f"n{item.id}", turn_id=item.turn_id, text=item.text) for item in more]
    ratio = await add_milliseconds(sqlite_index(crowded, 1), fresh)
    ratio /= await add_milliseconds(sqlite_index(alone, 0), fresh)
    await alone.aclose()
    await crowded.aclose()
    return [
        Measurement(
            f"query, one of {sessions:,} sessions against alone",
            statistics.median(rounds),
            1.3,
            "times",
        ),
        Measurement(f"add, one of {sessions:,} sessions against alone", ratio, 0, "times"),
    ]


async def first_query_ratio(folder: Path) -> Measurement:
    """Compare the first query after opening the file, with few and with many messages."""
    times: list[float] = []
    for name in ("1000.db", "100000.db"):
        rounds: list[float] = []
        for _ in range(15):
            database = SqliteDatabase(folder / name)
            started = time.process_time()
            await sqlite_index(database, 0).get(["t1"])
            rounds.append(time.process_time() - started)
            await database.aclose()
        times.append(statistics.median(rounds))
    return Measurement("open 100,000 messages against 1,000", times[1] / times[0], 1.3, "times")


FIRST_TURN = """
import asyncio, sys
from pathlib import Path
from acc import Agent, Runner

async def main():
    runner = Runner(Agent(name="a", model="embedded", memory="acc"), store=sys.argv[1])
    await runner.run(user_id="ann", session_id="s", message="The rollback window is 30 minutes.")
    lines = Path("/proc/self/status").read_text().splitlines()
    print(next(line.split()[1] for line in lines if line.startswith("VmRSS")))

asyncio.run(main())
"""


def resident_megabytes(store: str) -> float:
    """Return the memory of a process after its first turn with ACC memory."""
    command = [sys.executable, "-c", FIRST_TURN, store]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - ours
    return int(done.stdout) / 1024


def bench_cost() -> list[Measurement]:
    async def measure() -> list[Measurement]:
        results: list[Measurement] = []
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            for count in (1_000, 10_000, 100_000):
                results += await cost_of("memory", InMemoryRecallIndex(terms=TERMS), count)
                database = SqliteDatabase(folder / f"{count}.db")
                results += await cost_of("SQLite", sqlite_index(database, 0), count)
                await database.aclose()
                size = (folder / f"{count}.db").stat().st_size / 1e6
                results.append(Measurement(f"file with {count:,} messages", size, 0, "MB"))
            results.append(await first_query_ratio(folder))
            results += await cost_of_sessions(folder, 1_000, 100)
            for label, store in (("memory", "memory"), ("SQLite", str(folder / "turn.db"))):
                name = f"process after the first turn, store in {label}"
                results.append(Measurement(name, resident_megabytes(store), 80, "MB"))
        return results

    return asyncio.run(measure())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=["quality", "cost", []], metavar="NAME")
    parser.add_argument("--development", action="store_true", help="use the development part")
    options = parser.parse_args()
    measurements: list[Measurement] = []
    if not options.names or "quality" in options.names:
        measurements += bench_quality("development" if options.development else "heldout")
    if not options.names or "cost" in options.names:
        measurements += bench_cost()
    for measurement in measurements:
        print(measurement)
    return 0 if all(measurement.within_limit for measurement in measurements) else 1


if __name__ == "__main__":
    sys.exit(main())
