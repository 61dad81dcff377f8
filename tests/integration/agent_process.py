"""Run agents on a SQLite file: `agent_process.py FILE LEDGER COMMAND [ARGUMENT ...]`.

The process prints JSON lines. Every payment is a line in the ledger, so that a test can count them.
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
    ModelRequest,
    RunContext,
    Runner,
    RunResult,
    SequentialAgent,
    ToolCall,
    approve,
    tool,
)
from acc.testing import ScriptedModel, call

FILE, LEDGER, COMMAND, *ARGUMENTS = sys.argv[1:]
IDS: dict[str, Any] = {"user_id": "ann", "session_id": "s1"}


def print_line(**fields: Any) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def record_payment(amount: int) -> None:
    with Path(LEDGER).open("a", encoding="utf-8") as ledger:
        ledger.write(f"{amount}\n")


@tool(confirm=True)
async def pay(amount: int) -> str:
    """Pay an amount; with the argument "hang" the call never returns."""
    record_payment(amount)
    if "hang" in ARGUMENTS:
        print_line(at="paying")
        await asyncio.Event().wait()
    return f"paid {amount}"


@tool
def block() -> str:
    """Block the thread until the process is killed."""
    print_line(at="blocking")
    time.sleep(600)
    return "unreachable"


def respond(prompt: ModelRequest) -> str | ToolCall:
    """Call the tool that the message names, then return its result."""
    results = [p.result for m in prompt.following for p in m.parts if p.result is not None]
    if results:
        return f"result: {json.dumps(results[-1].content)}"
    if "pay" in prompt.query:
        return call("pay", amount=5)
    return call("block") if "block" in prompt.query else f"you said {prompt.query}"


class CountMessages(BaseAgent):
    """Counts messages in the state, with a pause between reading and writing."""

    async def run(self, ctx: RunContext) -> None:
        count = ctx.state.get("count", 0)
        await asyncio.sleep(0.001)
        ctx.state["count"] = count + 1


def make_tree() -> BaseAgent:
    model = ScriptedModel(respond, repeat=True)
    clerk = Agent(name="clerk", model=model, tools=[pay, block], memory=None)
    return SequentialAgent(name="shop", sub_agents=[CountMessages(name="counter"), clerk])


def print_result(result: RunResult) -> None:
    print_line(
        status=result.status.value,
        text=result.text,
        requests=[request.id for request in result.requests],
        state=dict(result.state),
    )


async def send(runner: Runner) -> None:
    for message in ARGUMENTS:
        print_result(await runner.run(**IDS, message=message))


async def resume(runner: Runner) -> None:
    print_line(at="ready")
    sys.stdin.readline()
    answers = [approve(request_id) for request_id in ARGUMENTS if request_id != "hang"]
    print_result(await runner.resume(**IDS, answers=answers))


async def stream(runner: Runner) -> None:
    async for event in runner.stream(**IDS, message=ARGUMENTS[0]):
        if not event.partial:
            print_line(seq=event.seq, kind=event.kind.value, text=event.text)


async def remember(runner: Runner) -> None:
    """Send each message to one agent per memory and print the memory in its prompts."""
    for memory in ("acc", "transcript", "retrieval"):
        model = ScriptedModel(lambda prompt: f"noted: {prompt.query}", repeat=True)
        agent = Agent(name="clerk", model=model, memory=memory)
        memory_runner = Runner(agent, services=runner.services)
        for message in ARGUMENTS:
            await memory_runner.run(user_id="ann", session_id=memory, message=message)
        for prompt in model.requests:
            print_line(memory=memory, query=prompt.query, prompt_memory=prompt.memory)


COMMANDS = {"send": send, "resume": resume, "stream": stream, "remember": remember}


async def main() -> None:
    runner = Runner(make_tree(), store=FILE)
    try:
        await COMMANDS[COMMAND](runner)
    except AccError as error:
        print_line(error=error.code)
    await runner.aclose()


if __name__ == "__main__":
    asyncio.run(main())
