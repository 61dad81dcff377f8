"""State access from threads."""

import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from agent_support import WHO

from acc import Agent, Runner, ToolContext, tool
from acc.application.runtime.state import State, StateView
from acc.testing import ScriptedModel, call

_THREADS = 8


@pytest.fixture(autouse=True)
def short_switch_interval() -> Iterator[None]:
    """Minimize the switch interval of threads."""
    previous = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(previous)


def run_in_threads(state: State, work: Callable[[int], Any], record: Callable[[], Any]) -> None:
    """Run work in many threads and record the state repeatedly."""
    with ThreadPoolExecutor(_THREADS) as threads:
        futures = [threads.submit(work, number) for number in range(_THREADS)]
        while not all(one.done() for one in futures):
            record()
    for one in futures:
        one.result()


async def test_reading_state_in_threads_does_not_fail_the_run() -> None:
    @tool
    def scan(part: int, ctx: ToolContext) -> int:
        """Scan a part."""
        found = 0
        for row in range(part * 20, part * 20 + 20):
            found += len(ctx.state[f"rows_{row}"])
            time.sleep(0.0001 * (part + 1))
        return found

    calls = [call("scan", part=part) for part in range(_THREADS)]
    runner = Runner(Agent(name="a", model=ScriptedModel(calls, "done"), tools=[scan], memory=None))
    rows = {f"rows_{n}": [{"id": m} for m in range(200)] for n in range(20 * _THREADS)}
    await runner.update_state(rows, **WHO)
    assert (await runner.run(**WHO, message="go")).text == "done"


def test_reading_lists_in_threads_writes_nothing() -> None:
    state = State({f"k{n}": [n] * 20 for n in range(400)})
    run_in_threads(state, lambda number: [list(state[key]) for key in state], lambda: state.pending)
    assert state.flush() == ({}, ())


def test_writes_of_all_threads_are_stored() -> None:
    state = State({})
    view = StateView(state)
    taken: dict[str, Any] = {}

    def write(number: int) -> None:
        for n in range(100):
            key = f"k{number}.{n}"
            view[key] = [n]
            view[key].append("more")
            view[f"gone{number}"] = n
            del view[f"gone{number}"]

    run_in_threads(state, write, lambda: taken.update(state.flush()[0]))
    delta, removed = state.flush()
    taken = {**taken, **delta}
    wanted = {f"k{number}.{n}": [n, "more"] for number in range(_THREADS) for n in range(100)}
    assert state.copy() == wanted
    assert {key: taken[key] for key in wanted} == wanted
    assert state.written()[0] == wanted
    assert all(key.startswith("gone") for key in removed)


def test_mappings_changed_in_threads_are_stored() -> None:
    state = State({"all": {"inner": {}}})
    view = StateView(state)

    def change(number: int) -> None:
        for n in range(300):
            view["all"]["inner"][f"{number}.{n}"] = n

    run_in_threads(state, change, state.flush)
    state.flush()
    assert len(state.copy()["all"]["inner"]) == 300 * _THREADS


def test_setdefault_in_threads_shares_one_list() -> None:
    state = State({})
    view = StateView(state)

    def append(number: int) -> None:
        for n in range(200):
            view.setdefault(f"list{n}", []).append(number)

    run_in_threads(state, append, lambda: None)
    everyone = list(range(_THREADS))
    assert {key: sorted(value) for key, value in state.copy().items()} == {
        f"list{n}": everyone for n in range(200)
    }


def test_pop_in_threads_returns_value_once() -> None:
    state = State({f"k{n}": n for n in range(400)})
    view = StateView(state)
    found: list[int] = []

    def take_out(number: int) -> None:
        found.extend(n for n in range(400) if view.pop(f"k{n}", None) is not None)

    run_in_threads(state, take_out, lambda: None)
    assert sorted(found) == list(range(400))
    with pytest.raises(KeyError):
        view.pop("k1")
