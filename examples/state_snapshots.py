"""Snapshots of the state: find out who overwrote what (section 11.2).

With `RunConfig(snapshots=True)` the state is shown before and after each agent; nothing of it is
stored. Two agents here use the key `result` for different things, which is the kind of mistake that
snapshots show at once. You will see each agent's changes, the culprit, and the cure: a prefix.

Run it: python examples/state_snapshots.py
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from acc import BaseAgent, Event, EventKind, RunConfig, RunContext, Runner, SequentialAgent


@dataclass(kw_only=True, eq=False)
class Writes(BaseAgent):
    """Writes one value under one key."""

    key: str
    value: str

    async def run(self, ctx: RunContext) -> None:
        """Write it."""
        ctx.state[self.key] = self.value


def pipeline(prefix: str = "") -> SequentialAgent:
    """Return three agents; with a prefix, the last one keeps to a key of its own."""
    return SequentialAgent(
        name="pipeline",
        sub_agents=[
            Writes(name="ocr", key="result", value="請求書 No.2041 合計 55,000円"),
            Writes(name="language", key="language", value="ja"),
            Writes(name="spam_check", key=f"{prefix}result", value="ok"),
        ],
    )


def changes(events: Sequence[Event]) -> Iterator[tuple[str, str, Any, Any]]:
    """Give agent, key, old and new value for each change between two snapshots of an agent."""
    before: dict[str, dict[str, Any]] = {}
    for event in events:
        if event.kind is EventKind.SNAPSHOT:
            state = event.detail["state"]
            if event.detail["when"] == "before":
                before[event.author] = state
            elif event.author != "pipeline":
                for key, value in state.items():
                    old = before[event.author].get(key)
                    if old != value:
                        yield event.author, key, old, value


async def main() -> None:
    """Run with snapshots, find the mistake, and run the cured pipeline."""
    runner = Runner(pipeline(), config=RunConfig(snapshots=True))
    result = await runner.run(user_id="u1", session_id="s1", message="この請求書を読んで")
    overwritten = []
    for agent, key, old, new in changes(result.events):
        print(f"{agent}: {key} = {old!r} → {new!r}{'  ← overwritten!' if old else ''}")
        if old is not None:
            overwritten.append((agent, key))
    stored = await runner.events(user_id="u1", session_id="s1")

    # A limit or a switch can also be given for a single run.
    cured = await Runner(pipeline(prefix="spam_check.")).run(
        user_id="u1", session_id="s1", message="もう一度", config=RunConfig(snapshots=True)
    )
    print(dict(cured.state))

    assert overwritten == [("spam_check", "result")]
    assert result.state["result"] == "ok", "the text is gone"
    assert not any(event.kind is EventKind.SNAPSHOT for event in stored), "shown, never stored"
    assert cured.state["result"].startswith("請求書") and cured.state["spam_check.result"] == "ok"
    assert not any(old for _, _, old, _ in changes(cured.events))


if __name__ == "__main__":
    asyncio.run(main())
