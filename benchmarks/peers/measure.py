"""Measures one contender in a process of its own, which `compare.py` starts, and prints JSON.

Little is imported before the contender, so that its import is charged with all that
it needs.
"""

import sys
import time
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import ModuleType
    from typing import Any

    from peers.stub import Talk, Turn

#: How often model and tool must have been called in one turn.
EXPECTED = {
    "one_turn": (1, 0),
    "tool_turn": (2, 1),
    "sequential": (3, 0),
    "parallel": (3, 0),
    "loop": (5, 0),
}
WARM_UP, BATCHES, BATCH = 30, 10, 20
TURNS = 500
#: The turns whose mean stands for a turn.
WINDOWS = {10: (6, 15), 100: (91, 110), 250: (241, 260), 500: (481, 500)}


class NotTheSame(Exception):
    """A contender did not do what the others do."""


def turns(name: str) -> "dict[str, Any]":
    """Measure import, the first two answers of a session, and the small turns."""
    started = time.process_time()
    module = import_module(f"peers.{name}")
    imported = time.process_time() - started

    import asyncio

    async def first_answers() -> "dict[str, float]":
        from peers.stub import query

        # Two, because what the first turn puts off is often due in the second.
        talk: Talk = module.session()
        found = {}
        for number, column in enumerate(("first_answer", "second_answer"), start=1):
            await talk(query(number))
            found[column] = time.process_time() - started
        return found

    found: dict[str, Any] = {"import": imported} | asyncio.run(first_answers())
    for what in EXPECTED:
        found |= asyncio.run(_guarded(what, _small_turn(module, what)))
    return {"version": _version(module), "found": found}


def session(name: str, function: str) -> "dict[str, Any]":
    """Measure one long session."""
    module = import_module(f"peers.{name}")

    import asyncio

    found = asyncio.run(_guarded("session", _session(getattr(module, function))))
    return {"version": _version(module), "found": found["session"]}


async def _guarded(what: str, work: "Awaitable[Any]") -> "dict[str, Any]":
    try:
        return {what: await work}
    except Exception as error:  # noqa: BLE001 - whatever breaks is reported as not measured
        return {what: {"error": f"{type(error).__name__}: {error}"}}


async def _small_turn(module: "ModuleType", what: str) -> float:
    from statistics import median

    from peers.stub import ANSWER, COUNT

    turn: Turn = getattr(module, what)()
    COUNT.model = COUNT.tool = 0
    answer = await turn()
    if (COUNT.model, COUNT.tool) != EXPECTED[what] or ANSWER not in answer:
        raise NotTheSame(f"{what}: {COUNT.model} model and {COUNT.tool} tool calls, {answer!r}")
    for _ in range(WARM_UP):
        await turn()
    taken = []
    for _ in range(BATCHES):
        started = time.process_time()
        for _ in range(BATCH):
            await turn()
        taken.append((time.process_time() - started) / BATCH * 1000)
    return median(taken)


async def _session(make: "Callable[[], Talk]") -> "dict[str, float]":
    from peers.stub import COUNT, query

    warm = make()
    for number in range(WARM_UP):
        await warm(query(number))
    turn = make()
    costs: list[float] = []
    early = 0.0
    for number in range(1, TURNS + 1):
        message = query(number)
        started = time.process_time()
        await turn(message)
        costs.append((time.process_time() - started) * 1000)
        if number == 10:
            early = _resident_megabytes()
            shown = COUNT.shown
    if COUNT.shown <= shown:
        raise NotTheSame("the model was not shown more of the session at its end")
    late = _resident_megabytes()
    found = {
        f"turn_{turn}": sum(costs[first - 1 : last]) / (last - first + 1)
        for turn, (first, last) in WINDOWS.items()
    }
    return {**found, "grown": late - early, "resident": late}


def _resident_megabytes() -> float:
    import gc
    from pathlib import Path
    from resource import getpagesize

    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * getpagesize() / 2**20


def _version(module: "ModuleType") -> str:
    from importlib.metadata import version

    return version(module.DISTRIBUTION)


def main() -> None:
    """Measure what the arguments name: a contender, and `turns` or `session` and a function."""
    name, what, *rest = sys.argv[1:]
    found = turns(name) if what == "turns" else session(name, *rest)

    import json

    print(json.dumps(found))
