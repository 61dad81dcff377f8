"""Agents that are coupled by events only (section 10.4).

A run is a stream of events, and whoever is interested reacts: an audit log, a notifier, and a
second agent that starts because a file appeared, with the same trace id. The first agent knows none
of them, and no message broker is needed. You will also see a listener that comes late catch up.

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
    """Subscribe a function to one kind of event; put your message broker here if you have one."""

    def subscribe(listener: Listener) -> Listener:
        LISTENERS.setdefault(kind, []).append(listener)
        return listener

    return subscribe


class Analyst(BaseAgent):
    """Does its work and tells nobody in particular."""

    async def run(self, ctx: RunContext) -> str:
        """Save a file and answer."""
        await ctx.artifacts.save("report.md", "# 需要予測\n\n来週は15%増。")
        ctx.state["forecast"] = 0.15
        return "需要は来週15%増える見込みです。"


indexer = Runner(
    Agent(
        name="indexer",
        # A real model would choose the keywords.
        model=ScriptedModel(lambda prompt: f"索引を作成: {prompt.query}"),
    )
)


@on(EventKind.ARTIFACT)
async def index_new_files(event: Event) -> None:
    """Start another agent because something happened; the trace id goes on."""
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
    """Tell a person when it is over."""
    NOTIFIED.append(f"{event.status}: {event.text}")


@on(EventKind.ARTIFACT)
@on(EventKind.MESSAGE)
async def audit(event: Event) -> None:
    """Write down the message that a broker would carry."""
    message = {
        "event_type": event.kind,
        "payload": event.text or dict(event.detail),
        "trace_id": event.trace_id,
        "agent_name": event.author,
    }
    AUDIT.append(json.dumps(message, ensure_ascii=False))


async def main() -> None:
    """Publish what happens; the events are stored before anybody hears of them."""
    runner = Runner(Analyst(name="analyst"))
    context = CallContext(request_id="r-1", trace_id="trace-7739a", caller="user://u1")
    async for event in runner.stream(
        user_id="u1", session_id="s1", message="需要を予測して", context=context
    ):
        for listener in LISTENERS.get(event.kind, ()):
            await listener(event)
    print(*AUDIT, *NOTIFIED, INDEXED[-1].text, sep="\n")

    heard_until = 2  # a listener that was away after the second event asks for the rest
    missed = await runner.events(user_id="u1", session_id="s1", after=heard_until)
    print("missed:", *(event.kind for event in missed))

    assert [json.loads(line)["event_type"] for line in AUDIT] == ["message", "artifact", "message"]
    assert NOTIFIED == ["completed: 需要は来週15%増える見込みです。"]
    assert INDEXED[-1].text == "索引を作成: report.md"
    assert {event.trace_id for event in INDEXED} == {"trace-7739a"}
    assert [event.kind for event in missed] == [EventKind.MESSAGE, EventKind.ENDED]


if __name__ == "__main__":
    asyncio.run(main())
