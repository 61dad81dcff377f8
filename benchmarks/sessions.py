"""Cost of many sessions with ACC memory: late turns, cache misses, process memory and opening.

1,000 sessions of each age take their turns in rotation, so what a process remembers of one session
is not in its caches when the next turn of that session begins. Turns 36 to 45 and 96 to 105 say
what turns 6 to 15 say, with other names and numbers, so that only the session before them differs.
The model is scripted.
Run: python benchmarks/sessions.py [--sessions 100] [--only-ratio]
"""

import argparse
import asyncio
import gc
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from measurement import Measurement

from acc import Agent, Runner
from acc.application.memory.acc import AccMemory
from acc.bootstrap.memory import make_reader, recall_index, token_counter
from acc.domain.value_objects.memory import TurnSignal
from acc.domain.value_objects.session import SessionKey
from acc.ports.outbound.memory_ports import MemoryView
from acc.testing import ScriptedModel

SESSIONS = 1_000
#: The turns that are compared, counted from 1: those about turns 10, 40 and 100.
EARLY, MIDDLE, LATE = range(6, 16), range(36, 46), range(96, 106)
OPENINGS = 15
#: Events of the opened sessions: the first has a nearly empty state, the others a full one.
EVENTS = (10, 750, 10_000)
TOPICS = ("rollback", "backup", "invoice", "on-call", "release", "audit", "payroll", "shipping")
PEOPLE = ("Bo", "Ann", "Mika", "Yusuf", "Chen", "Ravi", "Ines", "Olga")
#: One block of ten turns: facts, rules, a change, a correction, questions and small talk.
BLOCK = (
    "The {topic} window of unit-{number} is {minutes} minutes. {person} is responsible for it.",
    "From now on, always name the owner of unit-{number} when you mention {topic}.",
    "What is the {topic} window of unit-{number}?",
    "Thanks, that helps. I will be in a meeting until noon.",
    "Correction: the {topic} window of unit-{number} is {more} minutes.",
    "Who is responsible for {topic}, and which limits did I give you so far?",
    "Summarise the open points of {topic} in two sentences for {person}, please.",
    "You no longer need to name the owner of unit-{number} when you mention {topic}.",
    "{person} が unit-{number} の{topic}を担当します。予算は{minutes}万円です。",
    "Which of the {topic} limits changed today?",
)


def message(session: int, turn: int) -> str:
    """Return what a user says in a turn; the same place of a block has the same form."""
    block, place = divmod(turn - EARLY.start, len(BLOCK))
    rng = random.Random(f"{session}.{block}")  # noqa: S311 - variety
    return BLOCK[place].format(
        topic=rng.choice(TOPICS),
        person=rng.choice(PEOPLE),
        number=rng.randrange(10_000),
        minutes=rng.randrange(10, 60),
        more=rng.randrange(60, 90),
    )


class Costs(NamedTuple):
    """The milliseconds of CPU of an early, a middle and a late turn."""

    early: float
    middle: float
    late: float


async def turn_costs(sessions: int, *, only_ratio: bool) -> list[Costs]:
    """Return the costs if memories are cached, and if every turn creates its memory again.

    With `only_ratio`, the first without the middle turns, which needs half of the time.

    Old sessions have had all turns before the late ones, and those of the middle age all before the
    middle ones. Then young, middle and old sessions alternate, so that a change of the load of the
    machine affects all. The second measurement continues the middle and old sessions, with young
    sessions of its own.
    """
    model = ScriptedModel("Noted.", repeat=True)
    agent = Agent(name="a", model=model, memory="acc")
    runner = Runner(agent, max_cached_memories=4 * sessions)
    cache = runner.services.memory_cache

    async def take_turn(group: str, turn: int, *, is_cached: bool = True) -> float:
        names = [f"{group}{session}" for session in range(sessions)]
        texts = [message(session, turn) for session in range(sessions)]
        keys = [
            SessionKey(app_name=runner.app_name, user_id="u", session_id=name) for name in names
        ]
        started = time.process_time()
        for key, text in zip(keys, texts, strict=True):
            if not is_cached:
                cache.evict(key, agent.name)
            await runner.run(user_id="u", session_id=key.session_id, message=text)
        return (time.process_time() - started) * 1000 / sessions

    async def measured_turn(group: str, turn: int, *, is_cached: bool) -> float:
        gc.collect()
        return await take_turn(group, turn, is_cached=is_cached)

    async def measure(young: str, *, after: int, is_cached: bool) -> Costs:
        for turn in range(1, EARLY.start):
            await take_turn(young, turn)
        costs = [
            (
                await measured_turn(young, early, is_cached=is_cached),
                0.0
                if only_ratio
                else await measured_turn("middle", middle + after, is_cached=is_cached),
                await measured_turn("old", late + after, is_cached=is_cached),
            )
            for early, middle, late in zip(EARLY, MIDDLE, LATE, strict=True)
        ]
        return Costs(*[statistics.fmean(values) for values in zip(*costs, strict=True)])

    for group, first in (("middle", 1 if only_ratio else MIDDLE.start), ("old", LATE.start)):
        for turn in range(1, first):
            await take_turn(group, turn)
    costs = [await measure("young", after=0, is_cached=True)]
    if not only_ratio:
        costs.append(await measure("new", after=len(LATE), is_cached=False))
    await runner.aclose()
    return costs


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


def first_turn_megabytes(store: str) -> float:
    """Return the memory of a process after its first turn with ACC memory."""
    command = [sys.executable, "-c", FIRST_TURN, store]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - ours
    return int(done.stdout) / 1024


class TimedMemory(AccMemory):
    """An ACC memory that records when its session is open: before the view of the turn."""

    opened_at = 0.0

    async def view(self, signal: TurnSignal) -> MemoryView:
        TimedMemory.opened_at = time.process_time()
        return await super().view(signal)


def timed_memory() -> TimedMemory:
    return TimedMemory(reader=make_reader(), index=recall_index(), tokens=token_counter())


class Opening(NamedTuple):
    """The milliseconds of CPU of opening a session, and of its first turn with the opening."""

    load: float
    turn: float


async def opening_costs(folder: Path, counts: Sequence[int]) -> list[Opening]:
    """Return the costs for sessions with so many events, each opened in a new process cache."""
    stores = [folder / f"{count}.db" for count in counts]
    for store, count in zip(stores, counts, strict=True):
        await _fill(store, count)
    costs: list[list[Opening]] = [[] for _ in stores]
    for _ in range(OPENINGS):
        for known, store in zip(costs, stores, strict=True):
            # A turn adds events, so it is taken in a copy.
            copy = shutil.copy(store, folder / "copy.db")
            model = ScriptedModel("Noted.", repeat=True)
            runner = Runner(Agent(name="a", model=model, memory=timed_memory), store=copy)
            await runner.run(user_id="u", session_id="other", message="Good morning.")
            gc.collect()
            started = time.process_time()
            await runner.run(user_id="u", session_id="s", message=message(0, LATE.start))
            load, turn = TimedMemory.opened_at - started, time.process_time() - started
            known.append(Opening(load * 1000, turn * 1000))
            await runner.aclose()
    return [Opening(*map(statistics.median, zip(*known, strict=True))) for known in costs]


async def _fill(store: Path, events: int) -> None:
    """Store a session with about so many events."""
    model = ScriptedModel("Noted.", repeat=True)
    runner = Runner(Agent(name="a", model=model, memory="acc"), store=store)
    turn = 0
    stored = 0
    while stored < events:
        turn += 1
        result = await runner.run(user_id="u", session_id="s", message=message(0, turn))
        stored += len(result.events)
    await runner.aclose()


def measure(sessions: int, *, only_ratio: bool) -> list[Measurement]:
    results: list[Measurement] = []
    labels = ("all memories cached", "no memory cached")
    costs_of = asyncio.run(turn_costs(sessions, only_ratio=only_ratio))
    for label, costs in zip(labels, costs_of, strict=False):
        name = f"{sessions:,} sessions, {label}: turn"
        known = [(10, costs.early), (40, costs.middle), (100, costs.late)]
        known = [(turn, cost) for turn, cost in known if cost]
        results += [Measurement(f"{name} {turn}", cost, 0, "ms CPU") for turn, cost in known]
        for turn, cost in known[:-1]:
            ratio = costs.late / cost
            results.append(Measurement(f"{name} 100 against {turn}", ratio, 1.3, "times"))
    if only_ratio:
        return results
    with tempfile.TemporaryDirectory() as folder:
        for label, store in (("memory", "memory"), ("SQLite", str(Path(folder) / "turn.db"))):
            name = f"process after the first turn, store in {label}"
            results.append(Measurement(name, first_turn_megabytes(store), 80, "MB"))
        openings = dict(zip(EVENTS, asyncio.run(opening_costs(Path(folder), EVENTS)), strict=True))
    few, full, many = EVENTS
    for count, opening in openings.items():
        results.append(
            Measurement(f"opening a session with {count:,} events", opening.load, 0, "ms CPU")
        )
    load = openings[many].load / openings[few].load
    results.append(Measurement(f"opening, {many:,} events against {few}", load, 1.3, "times"))
    for count, opening in openings.items():
        name = f"opening and first turn in a session with {count:,} events"
        results.append(Measurement(name, opening.turn, 0, "ms CPU"))
    for count in (full, few):
        name = f"opening and first turn, {many:,} events against {count}"
        results.append(Measurement(name, openings[many].turn / openings[count].turn, 1.3, "times"))
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=SESSIONS, help="number of sessions")
    parser.add_argument(
        "--only-ratio", action="store_true", help="measure only turns 10 and 100, cached"
    )
    options = parser.parse_args()
    results = measure(options.sessions, only_ratio=options.only_ratio)
    for result in results:
        print(result)
    return 0 if all(result.within_limit for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
