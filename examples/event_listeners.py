"""Agents that communicate only by events (section 10.4).

A run is a stream of events to which listeners react: an audit log, a notifier, and a second agent
that starts when a file is saved and uses the same trace id. The first agent does not depend on
them, and no message broker is needed. At the end, a late listener reads the events it missed.

Run it: python examples/event_listeners.py
"""

import asyncio
import json
from collections.abc import Awaitable, Callable

from acc import Agent, BaseAgent, CallContext, Event, EventKind, RunContext, Runner
from acc.testing import ScriptedModel

Listener = Callable[[Event], Awaitable[None]]
LISTENERS: dict[EventKind, list[Listener]] = {}
AUDIT: list[str] = []
NOTIFIED: list[str] = []
INDEXED: list[Event] = []


def on(kind: EventKind) -> Callable[[Listener], Listener]:
    """Subscribe a function to one kind of event; replace this with your message broker."""

    def subscribe(listener: Listener) -> Listener:
        LISTENERS.setdefault(kind, []).append(listener)
        return listener

    return subscribe


class Analyst(BaseAgent):
    """An agent that does not know its listeners."""

    async def run(self, ctx: RunContext) -> str:
        """Save a file and answer."""
        await ctx.artifacts.save("report.md", "# 需要予測\n\n来週は15%増。")
        ctx.state["forecast"] = 0.15
        return "需要は来週15%増える見込みです。"


indexer = Runner(
    Agent(
        name="indexer",
        # A real model chooses the keywords.
        model=ScriptedModel(lambda prompt: f"索引を作成: {prompt.query}"),
    )
)


@on(EventKind.ARTIFACT)
async def index_new_files(event: Event) -> None:
    """Start another agent with the same trace id."""
    context = CallContext(
        request_id=event.run_id, trace_id=event.trace_id, caller=f"agent://{event.author}"
    )
    async for follow_up in indexer.stream(
        user_id="system", session_id="index", message=event.detail["name"], context=context
    ):
        if not follow_up.partial:
            INDEXED.append(follow_up)


@on(EventKind.ENDED)
async def notify(event: Event) -> None:
    """Notify a person when the run ends."""
    NOTIFIED.append(f"{event.status}: {event.text}")


@on(EventKind.ARTIFACT)
@on(EventKind.MESSAGE)
async def audit(event: Event) -> None:
    """Record the message that a broker would send."""
    message = {
        "event_type": event.kind,
        "payload": event.text or dict(event.detail),
        "trace_id": event.trace_id,
        "agent_name": event.author,
    }
    AUDIT.append(json.dumps(message, ensure_ascii=False))


async def main() -> None:
    """Publish events to the listeners; every event is stored before it is published."""
    runner = Runner(Analyst(name="analyst"))
    context = CallContext(request_id="r-1", trace_id="trace-7739a", caller="user://u1")
    async for event in runner.stream(
        user_id="u1", session_id="s1", message="需要を予測して", context=context
    ):
        for listener in LISTENERS.get(event.kind, ()):
            await listener(event)
    print(*AUDIT, *NOTIFIED, INDEXED[-1].text, sep="\n")

    last_seq = 2  # the last event that a late listener has received
    missed = await runner.events(user_id="u1", session_id="s1", after=last_seq)
    print("missed:", *(event.kind for event in missed))

    assert [json.loads(line)["event_type"] for line in AUDIT] == ["message", "artifact", "message"]
    assert NOTIFIED == ["completed: 需要は来週15%増える見込みです。"]
    assert INDEXED[-1].text == "索引を作成: report.md"
    assert {event.trace_id for event in INDEXED} == {"trace-7739a"}
    assert [event.kind for event in missed] == [EventKind.MESSAGE, EventKind.ENDED]


if __name__ == "__main__":
    asyncio.run(main())
