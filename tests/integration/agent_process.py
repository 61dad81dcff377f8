"""A process of its own that runs agents on a SQLite file: `agent_process.py FILE LEDGER ORDER ...`.

Every payment is a line in the ledger, so that what ran can be counted from outside.
"""

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

from acc import (
    AccError,
    Agent,
    BaseAgent,
    Prompt,
    RunContext,
    Runner,
    RunResult,
    SequentialAgent,
    ToolCall,
    approve,
    tool,
)
from acc.testing import ScriptedModel, call

FILE, LEDGER, ORDER, *WORDS = sys.argv[1:]
IDS: dict[str, Any] = {"user_id": "ann", "session_id": "s1"}


def tell(**found: Any) -> None:
    """Report to whoever started this process."""
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()


def note_down(amount: int) -> None:
    with Path(LEDGER).open("a", encoding="utf-8") as ledger:
        ledger.write(f"{amount}\n")


@tool(confirm=True)
async def pay(amount: int) -> str:
    """Pay; if the process is told to hang, that never ends."""
    note_down(amount)
    if "hang" in WORDS:
        tell(at="paying")
        await asyncio.Event().wait()
    return f"paid {amount}"


@tool
def ponder() -> str:
    """Think, for ever."""
    tell(at="thinking")
    time.sleep(600)
    return "never"


def answer(prompt: Prompt) -> str | ToolCall:
    """Pay or think as asked, then say how that went."""
    results = [p.result for m in prompt.messages for p in m.parts if p.result is not None]
    if results:
        return f"it went like this: {json.dumps(results[-1].content)}"
    if "pay" in prompt.query:
        return call("pay", amount=5)
    return call("ponder") if "ponder" in prompt.query else f"you said {prompt.query}"


class Counts(BaseAgent):
    """Counts messages in the state, with a pause between reading and writing."""

    async def run(self, ctx: RunContext) -> None:
        before = ctx.state.get("count", 0)
        await asyncio.sleep(0.001)
        ctx.state["count"] = before + 1


def shop() -> BaseAgent:
    teller = Agent(
        name="teller", model=ScriptedModel(answer, repeat=True), tools=[pay, ponder], memory=None
    )
    return SequentialAgent(name="shop", sub_agents=[Counts(name="counts"), teller])


def report(result: RunResult) -> None:
    tell(
        status=result.status.value,
        text=result.text,
        requests=[request.id for request in result.requests],
        state=dict(result.state),
        seqs=[event.seq for event in result.events if not event.partial],
    )


async def say(runner: Runner) -> None:
    for text in WORDS:
        report(await runner.run(**IDS, message=text))


async def resume(runner: Runner) -> None:
    tell(at="ready")
    sys.stdin.readline()
    answers = [approve(word) for word in WORDS if word != "hang"]
    report(await runner.resume(**IDS, answers=answers))


async def stream(runner: Runner) -> None:
    async for event in runner.stream(**IDS, message=WORDS[0]):
        if not event.partial:
            tell(seq=event.seq, kind=event.kind.value, text=event.text)


async def chat(runner: Runner) -> None:
    """Say each word to one agent for each memory, and tell what its model was shown."""
    for memory in ("acc", "transcript", "retrieval"):
        model = ScriptedModel(lambda prompt: f"noted: {prompt.query}", repeat=True)
        agent = Agent(name="clerk", model=model, memory=memory)
        beside = Runner(agent, services=runner.services)
        for word in WORDS:
            await beside.run(user_id="ann", session_id=memory, message=word)
        for prompt in model.requests:
            tell(memory=memory, query=prompt.query, shown=prompt.memory)


async def main() -> None:
    runner = Runner(shop(), store=FILE)
    try:
        await {"say": say, "resume": resume, "stream": stream, "chat": chat}[ORDER](runner)
    except AccError as error:
        tell(error=error.code)
    await runner.aclose()


if __name__ == "__main__":
    asyncio.run(main())
