"""The inbox of requests."""

from typing import Any

from acc import Agent, Runner, approve, tool
from acc.application.console.approvals import pending_in
from acc.testing import ScriptedModel, call


@tool(confirm=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@tool
def look_up(number: int) -> str:
    """Return a fact."""
    return f"fact {number}"


class CountingSessions:
    """Counts the events that are read from a store."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.read_events = 0

    async def events(self, *arguments: Any, **options: Any) -> Any:
        found = await self._store.events(*arguments, **options)
        self.read_events += len(found)
        return found


async def test_requests_of_a_long_run_are_found_without_reading_all_of_it() -> None:
    steps = [call("look_up", number=number) for number in range(50)]
    model = ScriptedModel(steps, call("pay", amount=5), "done")
    runner = Runner(Agent(name="desk", model=model, tools=[look_up, pay]))
    paused = await runner.run("go")
    (session,) = await runner.sessions.list()
    store = CountingSessions(runner.services.sessions)
    (pending,) = await pending_in(store, session)  # type: ignore[arg-type]
    assert pending.request == paused.requests[0]
    assert store.read_events == 2
    await runner.aclose()


async def test_run_that_was_answered_after_the_list_was_read_waits_for_nothing() -> None:
    model = ScriptedModel(call("pay", amount=5), "done")
    runner = Runner(Agent(name="desk", model=model, tools=[pay]))
    paused = await runner.run("go")
    (session,) = await runner.sessions.list()
    await runner.resume(approve(paused.requests[0]))
    assert await pending_in(runner.services.sessions, session) == ()
    await runner.aclose()
