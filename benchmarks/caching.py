"""Cost of a conversation with prompt caching: transcript and ACC memory against full history.

Forty turns with two tool calls each. A token of the prefix that equals the previous request costs
a tenth of a new one, as with most providers. The full history is what a framework without a memory
sends: every earlier message, append-only. Run: python benchmarks/caching.py
"""

import argparse
import asyncio
import json
import random
import re
from collections.abc import Sequence
from os.path import commonprefix

import msgspec

from acc import (
    Agent,
    ChatMessage,
    FunctionTool,
    ModelRequest,
    ModelResponse,
    Part,
    Runner,
    ToolCall,
    acc_memory,
    tool,
)
from acc.application.runtime.agent_memory import MemoryChoice
from acc.bootstrap.memory import token_counter

TURNS = 40
CALLS_PER_TURN = 2
#: Rows of a tool result. The result depends on this size, so both are measured. With 30 rows, the
#: full history costs what the limits were stated for, about 570,000 units.
SIZES = (6, 30)
CACHED_PRICE = 0.1
#: Limits: shares of the full history's cost, and of the tokens that are cached.
MAX_TRANSCRIPT_SHARE = 1.0
MAX_ACC_SHARE = 1 / 3
MIN_CACHED_SHARE = 0.85
_TEXT = (
    "invoice order shipment stock pallet customer region delivery date amount supplier contract "
    "warehouse return damage insurance carrier customs weight volume route driver schedule delay"
)
WORDS = re.findall(r"\w+", _TEXT)


def seeded(seed: int | str) -> random.Random:
    return random.Random(seed)  # noqa: S311 - texts of the benchmark


def sentence(rng: random.Random, words: int) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(words)).capitalize() + "."


def make_search(records: int) -> FunctionTool:
    """Return a tool whose results have so many rows."""

    @tool
    def search(query: str) -> dict[str, object]:
        """Search the records of the warehouse by words and return the best matches."""
        rng = seeded(query)
        rows = [{"id": rng.randrange(10_000), "text": sentence(rng, 20)} for _ in range(records)]
        return {"query": query, "rows": rows}

    return search


class Agenda:
    """A model that calls the tool twice in each turn and then answers.

    It keeps the requests, and the answers by the number of their request.
    """

    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []
        self.answers: dict[int, str] = {}
        self._rng = seeded(7)

    async def complete(self, prompt: ModelRequest) -> ModelResponse:
        self.requests.append(prompt)
        done = sum(len(message.results) for message in prompt.following)
        if done < CALLS_PER_TURN:
            number = len(self.requests)
            arguments = {"query": sentence(self._rng, 5)}
            call = ToolCall(id=f"call-{number}", name="search", arguments=arguments)
            return ModelResponse(calls=(call,))
        answer = sentence(self._rng, 60)
        self.answers[len(self.requests) - 1] = answer
        return ModelResponse(text=answer)


def render_message(message: ChatMessage) -> str:
    return msgspec.json.encode((message.role, message.parts)).decode()


def render(request: ModelRequest) -> str:
    """Return a request in the order in which providers cache it."""
    tools = [[spec.name, spec.description, spec.parameters] for spec in request.tools]
    lines = [json.dumps(tools), request.instruction, request.memory]
    lines += [render_message(message) for message in request.messages]
    return "\n".join(lines)


def cost(texts: Sequence[str]) -> tuple[float, float]:
    """Return the cost in units of an uncached token, and the share of cached tokens."""
    count = token_counter().count
    total = cached = 0
    previous = ""
    for text in texts:
        total += count(text)
        cached += count(commonprefix([previous, text]))
        previous = text
    return total - cached * (1 - CACHED_PRICE), cached / total


def lower_bound(requests: Sequence[ModelRequest], *, is_view_new: bool) -> tuple[float, float]:
    """Return the least cost, and the largest cached share, that any order of contents can have.

    All messages and facts that the previous request has too count as cached, wherever they are. If
    `is_view_new` is False, all of the memory does, as if it never changed.
    """
    count = token_counter().count
    total = new = 0
    previous: set[str] = set()
    for request in requests:
        total += count(render(request))
        items = render(msgspec.structs.replace(request, memory="", messages=())).split("\n")
        own = request.messages[request.query_index :]
        if is_view_new:
            own = request.messages
            items += request.memory.replace(" | ", "\n").split("\n")
        items += map(render_message, own)
        new += sum(count(item) for item in items if item not in previous)
        previous = set(items)
    return new + (total - new) * CACHED_PRICE, 1 - new / total


async def converse(memory: MemoryChoice | None, records: int) -> Agenda:
    model = Agenda()
    instruction = " ".join(sentence(seeded(n), 25) for n in range(12))
    agent = Agent(
        name="clerk",
        model=model,
        instruction=instruction,
        tools=[make_search(records)],
        memory=memory,
    )
    runner = Runner(agent)
    rng = seeded(3)
    for _ in range(TURNS):
        await runner.run(user_id="u", session_id="s", message=sentence(rng, 40))
    await runner.aclose()
    return model


def full_history(model: Agenda) -> list[str]:
    """Return the requests of a model with every earlier message instead of a memory."""
    requests = model.requests
    texts: list[str] = []
    history: list[str] = []
    head = render(msgspec.structs.replace(requests[0], memory="", messages=()))
    for index, request in enumerate(requests):
        own = [render_message(m) for m in request.messages[request.query_index :]]
        texts.append("\n".join([head, *history, *own]))
        if index in model.answers:
            parts = (Part(text=model.answers[index]),)
            reply = ChatMessage(role="assistant", author="clerk", parts=parts)
            history += [*own, render_message(reply)]
    return texts


async def measure(records: int) -> tuple[dict[str, tuple[float, float]], list[str]]:
    """Return cost and cached share of each memory, and the limits that are exceeded."""
    transcript, acc = await converse("transcript", records), await converse("acc", records)
    small = await converse(lambda: acc_memory(budget=512), records)
    alone = await converse(None, records)
    rows = {
        "full history": cost(full_history(transcript)),
        "transcript": cost([render(request) for request in transcript.requests]),
        "acc": cost([render(request) for request in acc.requests]),
        "acc, best order": lower_bound(acc.requests, is_view_new=True),
        "acc, same view": lower_bound(acc.requests, is_view_new=False),
        "acc, budget 512": cost([render(request) for request in small.requests]),
        "no memory": cost([render(request) for request in alone.requests]),
    }
    full = rows["full history"][0]
    failures = [
        f"{name} costs {rows[name][0] / full:.2f} of the full history, {records} rows per result"
        for name, limit in (("transcript", MAX_TRANSCRIPT_SHARE), ("acc", MAX_ACC_SHARE))
        if rows[name][0] > full * limit
    ]
    failures += [
        f"only {rows[name][1]:.0%} of {name} is cached, {records} rows per result"
        for name in ("transcript", "acc")
        if rows[name][1] < MIN_CACHED_SHARE
    ]
    return rows, failures


async def main(as_json: bool) -> int:
    results = {records: await measure(records) for records in SIZES}
    failures = [failure for _, found in results.values() for failure in found]
    if as_json:
        tables = {str(records): rows for records, (rows, _) in results.items()}
        print(json.dumps({"rows": tables, "failures": failures}))
        return 1 if failures else 0
    for records, (rows, _) in results.items():
        full = rows["full history"][0]
        print(f"{f'{records} rows':16}{'units':>10}{'of full':>9}{'cached':>8}")
        for name, (units, share) in rows.items():
            print(f"{name:16}{units:10,.0f}{units / full:9.2f}{share:8.0%}")
    for failure in failures:
        print(f"limit exceeded: {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    raise SystemExit(asyncio.run(main(parser.parse_args().json)))
