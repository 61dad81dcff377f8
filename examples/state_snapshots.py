"""Snapshots of the state: find the agent that overwrote a key (section 11.2).

`RunConfig(snapshots=True)` emits the state before and after each agent, without storing it. Two
agents in this example use the key `result` for different values. The example prints the changes of
each agent, finds the one that overwrites the key, and fixes it with a prefix.

Run it: python examples/state_snapshots.py
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from acc import BaseAgent, Event, EventKind, RunConfig, RunContext, Runner, SequentialAgent


@dataclass(kw_only=True, eq=False)
class WriteKey(BaseAgent):
    """Writes one value under one key."""

    key: str
    value: str

    async def run(self, ctx: RunContext) -> None:
        """Write the value."""
        ctx.state[self.key] = self.value


def pipeline(prefix: str = "") -> SequentialAgent:
    """Return three agents; with a prefix, the last one uses its own key."""
    return SequentialAgent(
        name="pipeline",
        sub_agents=[
            WriteKey(name="ocr", key="result", value="請求書 No.2041 合計 55,000円"),
            WriteKey(name="language", key="language", value="ja"),
            WriteKey(name="spam_check", key=f"{prefix}result", value="ok"),
        ],
    )


def changes(events: Sequence[Event]) -> Iterator[tuple[str, str, Any, Any]]:
    """Yield agent, key, old and new value of each change."""
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
    """Run with snapshots, find the mistake, and run the fixed pipeline."""
    runner = Runner(pipeline(), config=RunConfig(snapshots=True))
    result = await runner.run(user_id="u1", session_id="s1", message="この請求書を読んで")
    overwritten = []
    for agent, key, old, new in changes(result.events):
        print(f"{agent}: {key} = {old!r} → {new!r}{'  ← overwritten!' if old else ''}")
        if old is not None:
            overwritten.append((agent, key))
    stored = await runner.events(user_id="u1", session_id="s1")

    # A configuration can also be passed for a single run.
    fixed = await Runner(pipeline(prefix="spam_check.")).run(
        user_id="u1", session_id="s1", message="もう一度", config=RunConfig(snapshots=True)
    )
    print(dict(fixed.state))

    assert overwritten == [("spam_check", "result")]
    assert result.state["result"] == "ok", "the text is overwritten"
    assert not any(event.kind is EventKind.SNAPSHOT for event in stored), "snapshots are not stored"
    assert fixed.state["result"].startswith("請求書") and fixed.state["spam_check.result"] == "ok"
    assert not any(old for _, _, old, _ in changes(fixed.events))


if __name__ == "__main__":
    asyncio.run(main())
