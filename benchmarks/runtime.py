"""What the runtime costs: turns with a model that answers at once, and one long session."""

import asyncio
import gc
import math
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from measurement import Measurement

from acc import (
    Agent,
    BaseAgent,
    LoopAgent,
    ModelRequest,
    ModelResponse,
    ParallelAgent,
    Runner,
    SequentialAgent,
    ToolCall,
    tool,
)
from acc.bootstrap.evaluation import scenario_library

ANSWER = ModelResponse(text="ok")
CALL = ModelResponse(calls=(ToolCall(id="1", name="add", arguments={"a": 1, "b": 2}),))


class Instant:
    async def complete(self, prompt: ModelRequest) -> ModelResponse:
        return ANSWER


class CallsOnce:
    async def complete(self, prompt: ModelRequest) -> ModelResponse:
        return ANSWER if prompt.following else CALL


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def add_plainly(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def agent(name: str) -> Agent:
    return Agent(name=name, model=Instant())


TREES: dict[str, tuple[float, Callable[[], BaseAgent]]] = {
    "one turn": (0.1, lambda: agent("a")),
    "turn with a tool call": (
        0.2,
        lambda: Agent(name="a", model=CallsOnce(), tools=[add]),
    ),
    "the same, a plain function in a thread": (
        0,
        lambda: Agent(name="a", model=CallsOnce(), tools=[tool(name="add")(add_plainly)]),
    ),
    "sequential of 3": (
        0.25,
        lambda: SequentialAgent(name="s", sub_agents=[agent("a"), agent("b"), agent("c")]),
    ),
    "parallel of 3": (
        0.35,
        lambda: ParallelAgent(name="p", sub_agents=[agent("a"), agent("b"), agent("c")]),
    ),
    "loop of 5": (
        0.5,
        lambda: LoopAgent(name="l", sub_agents=[agent("a")], max_iterations=5),
    ),
}
ROUNDS = 80
TURNS_A_ROUND = 20


def bench_turns() -> list[Measurement]:
    """Take turns between the trees, each turn in a session of its own.

    The lower quartile of the rounds, as what other work on the machine does to a round only adds.
    """

    async def measure() -> dict[str, list[float]]:
        times: dict[str, list[float]] = {name: [] for name in TREES}
        for number in range(ROUNDS):
            for name, (_, make) in TREES.items():
                runner = Runner(make())
                await runner.run(user_id="u", session_id="warm", message="hello")
                started = time.process_time()
                for turn in range(TURNS_A_ROUND):
                    await runner.run(user_id="u", session_id=f"s{turn}", message="hello there")
                if number:
                    times[name].append((time.process_time() - started) / TURNS_A_ROUND * 1000)
        return times

    found = asyncio.run(measure())
    return [
        Measurement(name, statistics.quantiles(found[name], n=4)[0], bar, "ms CPU")
        for name, (bar, _) in TREES.items()
    ]


def bench_sessions() -> list[Measurement]:
    """Hold one long session with ACC memory, and append to a long one in SQLite."""
    return [*_late_turns(), *_long_session(), *_appending()]


TOPICS = ("gateway", "ledger", "clinic", "depot", "archive", "router", "cluster", "payroll")


def _message(turn: int) -> str:
    topic = TOPICS[turn % len(TOPICS)]
    if turn % 3:
        return f"The {topic} limit of unit-{turn % 40} is {turn % 97} minutes. Keep it short."
    return f"What is the {topic} limit of unit-{turn % 40}?"


EVERYDAY = ("it-operations", "finance-operations", "it-operations-ja")


def conversation(turns: int, seed: int, names: Sequence[str] = EVERYDAY) -> list[str]:
    """Return what is said in shipped scenarios, one after another."""
    texts: list[str] = []
    while len(texts) < turns:
        for name in names:
            rendered = scenario_library().render(name, seed + len(texts))
            texts += [turn.query for turn in rendered.turns]
    return texts[:turns]


#: How much is said before the late turns, how much then, and what of that is measured.
BEFORE = 485
OPENING = 15
MEASURED = slice(5, OPENING)
#: Sessions for each scenario that it can begin with: those that are long, and those that are not.
LONG_SESSIONS, SHORT_SESSIONS = 2, 4
LATE_ROUNDS = 4
#: Returns so many turns of some kind of talk that begins with one scenario, by a seed.
Talk = Callable[[int, str, int], list[str]]


def _one_after_another(turns: int, first: str, seed: int) -> list[str]:
    start = EVERYDAY.index(first)
    return conversation(turns, seed, EVERYDAY[start:] + EVERYDAY[:start])


def _repeated(turns: int, first: str, seed: int) -> list[str]:
    return conversation(turns, seed, (first,))


def _same_words(turns: int, first: str, seed: int) -> list[str]:
    return [_message(turn + seed + EVERYDAY.index(first)) for turn in range(turns)]


def _late_turns() -> list[Measurement]:
    """Compare turns about 500 with turns about 10, in three kinds of talk.

    The bar is for shipped scenarios that follow each other. A repeated scenario grows
    least, because analysed sentences are cached.
    """
    early, mixed = _late_against_early(_one_after_another)
    _, same = _late_against_early(_repeated)
    _, monotonous = _late_against_early(_same_words)
    return [
        Measurement("turn 10 of one session, acc memory", early, 0, "ms CPU"),
        Measurement("turn 500 against turn 10, one scenario after another", mixed, 1.3, "times"),
        Measurement("the same with one scenario repeated", same, 0, "times"),
        Measurement("the same with the same words in every turn", monotonous, 0, "times"),
    ]


def _late_against_early(talk: Talk) -> tuple[float, float]:
    """Return what an early turn costs in milliseconds of CPU, and how many times that a late one.

    Late turns say what early ones say, with other names and numbers, so that only the session
    before them differs. Short and long sessions take turns, and all are held again in every round:
    what a turn took is the least of its rounds, as other work on the machine only adds. The first
    round does not count; after it, what the process remembers of sentences is the same in each.
    """
    sessions: list[tuple[bool, list[str]]] = []
    for number in range(LONG_SESSIONS):
        for name in EVERYDAY:
            seed = 10_000 * number
            texts = talk(BEFORE, name, seed) + talk(OPENING, name, seed + 5_000)
            sessions.append((True, texts))
            for short in range(SHORT_SESSIONS // LONG_SESSIONS):
                sessions.append((False, talk(OPENING, name, seed + 6_000 + 1_000 * short)))
    least = [[math.inf] * OPENING for _ in sessions]
    for round_number in range(LATE_ROUNDS + 1):
        for known, (_, texts) in zip(least, sessions, strict=True):
            times = asyncio.run(_turn_costs(texts))[-OPENING:]
            if round_number:
                known[:] = map(min, known, times)
    costs: dict[bool, list[float]] = {False: [], True: []}
    for known, (is_late, _) in zip(least, sessions, strict=True):
        costs[is_late] += known[MEASURED]
    early = statistics.fmean(costs[False])
    return early, statistics.fmean(costs[True]) / early


async def _turn_costs(texts: list[str]) -> list[float]:
    runner = Runner(Agent(name="a", model=Instant(), memory="acc"))
    times: list[float] = []
    for text in texts:
        started = time.process_time()
        await runner.run(user_id="u", session_id="s", message=text)
        times.append((time.process_time() - started) * 1000)
    return times


def _long_session() -> list[Measurement]:
    async def measure() -> tuple[float, float]:
        with tempfile.TemporaryDirectory() as folder:
            holder = Agent(name="a", model=Instant(), memory="acc")
            runner = Runner(holder, store=Path(folder) / "sessions.db")
            await runner.run(user_id="u", session_id="first", message=_message(0))
            cold = _resident()
            # What the process keeps of sentences it has read is bounded, and serves all sessions.
            for turn in range(1_500):
                await runner.run(user_id="u", session_id="first", message=_message(turn + 5_000))
            before = _resident()
            for turn in range(2_000):
                await runner.run(user_id="u", session_id="second", message=_message(turn))
            grown = _resident() - before
            await runner.aclose()
        return grown, before - cold

    grown, warm = asyncio.run(measure())
    return [
        Measurement("memory that 2,000 turns add, events in SQLite", grown, 5, "MB"),
        Measurement("the same for the first 1,500 turns of a process", warm, 0, "MB"),
    ]


def _resident() -> float:
    gc.collect()
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Private_Dirty:"):
            return int(line.split()[1]) / 1024
    return 0.0


def _appending() -> list[Measurement]:
    async def measure() -> tuple[float, float]:
        with tempfile.TemporaryDirectory() as folder:
            holder = Agent(name="a", model=Instant(), memory=None)
            runner = Runner(holder, store=Path(folder) / "sessions.db")

            async def turns(count: int) -> float:
                times: list[float] = []
                for _ in range(count):
                    started = time.process_time()
                    await runner.run(user_id="u", session_id="s", message="hello")
                    times.append((time.process_time() - started) * 1000)
                return statistics.median(times[-200:])

            early = await turns(220)
            await turns(33_000)
            late = await turns(220)
            await runner.aclose()
        return early, late

    early, late = asyncio.run(measure())
    return [
        Measurement("a turn stored in SQLite, at event 500", early, 0, "ms CPU"),
        Measurement("the same at event 100,000", late / early, 1.3, "times"),
    ]
