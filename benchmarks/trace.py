"""Count the functions, modules and file switches that one flow goes through.

    python benchmarks/trace.py [--json] [--list] [--parts] [--verbose] [FLOW ...]

Only functions of `acc` count, in the thread of the event loop. A file switch is a call whose
function is in another file than the function called before it. The depth is the number of `acc`
frames on the stack. `--verbose` prints the modules in the order in which the flow enters them, with
the number of calls until the next switch, and then the switches between two modules by frequency.
`--parts` prints the counts that would remain without the calls of one part of the code, and without
those of all these parts.
"""

import argparse
import asyncio
import contextlib
import io
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any

import acc
from acc import Agent, ModelRequest, ModelResponse, Runner, ToolCall, tool
from acc.bootstrap.a2a import ServeOptions, make_server
from acc.cli import execute

ROOT = str(Path(acc.__file__).parent)
ANSWER = ModelResponse(text="ok")
CALL = ModelResponse(calls=(ToolCall(id="1", name="add", arguments={"a": 1, "b": 2}),))
WARM_UP = 3
#: Parts of the code that a flow needs besides its own steps, by parts of their paths.
PARTS = {
    "explained errors": ("value_objects/base.py", "call_options.py", "call_guards.py"),
    "validated values": ("domain/text.py", "value_objects/"),
    "tracing": ("/tracing/", "current_trace.py"),
    "stores": ("adapters/storage/",),
    "contracts": ("/contracts/", "intent_admission.py", "a2a/extensions.py", "media_modes.py"),
    "memory": ("/memory/", "agent_memory.py", "conversation.py", "bootstrap/"),
}


class Tracer:
    """Record the calls of `acc` functions while it is enabled."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.depth = 0
        self._seen: set[FrameType] = set()

    def on_event(self, frame: FrameType, event: str, _: Any) -> None:
        """Count a call; a coroutine that continues is not called again."""
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(ROOT) or code.co_name == "<module>":
            return
        if frame in self._seen:
            return
        self._seen.add(frame)
        self.calls.append((code.co_filename, code.co_qualname))
        depth, above = 0, frame
        while above is not None:
            depth += above.f_code.co_filename.startswith(ROOT)
            above = above.f_back  # type: ignore[assignment] # the last one is None
        self.depth = max(self.depth, depth)

    def summary(self) -> dict[str, int]:
        """Return the counts of what was recorded."""
        files = [file for file, _ in self.calls]
        return {
            "calls": len(self.calls),
            "functions": len(set(self.calls)),
            "modules": len(set(files)),
            "switches": sum(a != b for a, b in zip(files, files[1:], strict=False)),
            "depth": self.depth,
        }

    def print_parts(self) -> None:
        """Print what would remain without the calls of single parts, and without all of them."""
        everything = tuple(path for paths in PARTS.values() for path in paths)
        for name, paths in {**PARTS, "all of these": everything}.items():
            files = [file for file, _ in self.calls if not any(path in file for path in paths)]
            switches = sum(a != b for a, b in zip(files, files[1:], strict=False))
            rest = f"{len(files)} calls, {len(set(files))} modules, {switches} switches"
            print(f"    without {name}: {rest}")

    def visits(self) -> list[tuple[str, int]]:
        """Return the modules in the order in which they are entered, with their calls."""
        modules = (str(Path(file).relative_to(ROOT)) for file, _ in self.calls)
        return [(module, len(list(calls))) for module, calls in groupby(modules)]

    def print_visits(self) -> None:
        """Print the visits in order, and the switches between two modules by frequency."""
        visits = self.visits()
        for number, (module, calls) in enumerate(visits, 1):
            print(f"{number:5} {module} ({calls})")
        names = [module for module, _ in visits]
        switches = Counter(zip(names, names[1:], strict=False))
        for (source, target), count in switches.most_common():
            print(f"{count:5} {source} -> {target}")


@contextlib.contextmanager
def tracing(tracer: Tracer) -> Iterator[None]:
    """Record what is called inside the block."""
    sys.setprofile(tracer.on_event)
    try:
        yield
    finally:
        sys.setprofile(None)


class CallsToolOnce:
    """A model that calls a tool and then answers."""

    async def complete(self, prompt: ModelRequest) -> ModelResponse:
        """Return the call, or the answer once there is a result."""
        return ANSWER if prompt.following else CALL


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def trace_tool_turn() -> Tracer:
    """Trace one turn with one tool call and the default memory, with stores in memory."""
    runner = Runner(Agent(name="a", model=CallsToolOnce(), tools=[add]))
    for number in range(WARM_UP):
        await runner.run(user_id="u", session_id=f"warm-{number}", message="hello")
    tracer = Tracer()
    with tracing(tracer):
        await runner.run(user_id="u", session_id="s", message="hello")
    await runner.aclose()
    return tracer


async def trace_send_message() -> Tracer:
    """Trace one SendMessage over JSON-RPC, with stores in one SQLite file."""
    agent = Agent(name="a", model=Instant(), description="Answers.", memory=None)
    with tempfile.TemporaryDirectory() as folder:
        server = make_server(agent, ServeOptions(store=Path(folder) / "acc.db", push=False))
        async with lifespan(server):
            for number in range(WARM_UP):
                await post(server, f"warm-{number}")
            tracer = Tracer()
            with tracing(tracer):
                await post(server, "m")
    return tracer


class Instant:
    """A model that answers at once."""

    async def complete(self, prompt: ModelRequest) -> ModelResponse:
        """Return the answer."""
        return ANSWER


@contextlib.asynccontextmanager
async def lifespan(server: Any) -> Any:
    """Run the lifespan of an ASGI application around the block."""
    incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    outgoing: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    async with asyncio.TaskGroup() as group:
        group.create_task(server({"type": "lifespan"}, incoming.get, outgoing.put))
        await incoming.put({"type": "lifespan.startup"})
        await outgoing.get()
        yield
        await incoming.put({"type": "lifespan.shutdown"})
        await outgoing.get()


async def post(server: Any, message_id: str) -> None:
    """Send a message through the ASGI interface, and fail unless its task completed."""
    message = {"messageId": message_id, "role": "ROLE_USER", "parts": [{"text": "hello"}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    content = json.dumps(body).encode()
    headers = {"a2a-version": "1.0", "content-type": "application/json", "host": "127.0.0.1"}
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/",
        "raw_path": b"/",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
    }
    answer = bytearray()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": content, "more_body": False}

    async def send(sent: dict[str, Any]) -> None:
        answer.extend(sent.get("body", b""))

    await server(scope, receive, send)
    if b"TASK_STATE_COMPLETED" not in answer:
        raise RuntimeError(f"the server answered {bytes(answer[:300])!r}")


class TurnTracer(Tracer):
    """Record from the judge of one turn to the judge of the next."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number
        self._judged = 0
        self._frames: set[FrameType] = set()

    def on_event(self, frame: FrameType, event: str, _: Any) -> None:
        """Count judges, and record between two of them."""
        is_judge = event == "call" and frame.f_code.co_name == "evaluate_turn"
        outermost = frame.f_back is None or frame.f_back.f_code.co_name != "evaluate_turn"
        if is_judge and outermost and frame not in self._frames:
            self._frames.add(frame)
            self._judged += 1
        if self._judged == self._number:
            super().on_event(frame, event, _)


def trace_evaluation_turn() -> Tracer:
    """Trace one turn of the shipped evaluation with two agents and the rubric judge."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["eval", "--scenario", "it-operations", "--agents", "baseline,acc"]
        command += ["--episodes", "1", "--workers", "1", "--quiet", "--out", f"{folder}/run"]
        tracer = TurnTracer(number=4)
        with contextlib.redirect_stdout(io.StringIO()), tracing(tracer):
            code = execute(command)
    if code:
        raise RuntimeError(f"the evaluation ended with {code}")
    return tracer


FLOWS: dict[str, Callable[[], Tracer]] = {
    "tool turn, in memory": lambda: asyncio.run(trace_tool_turn()),
    "A2A SendMessage, SQLite": lambda: asyncio.run(trace_send_message()),
    "evaluation turn, two agents": trace_evaluation_turn,
}


def main() -> int:
    """Trace the flows and print their counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("flows", nargs="*", metavar="FLOW", help="part of the name of a flow")
    parser.add_argument("--json", action="store_true", help="print as JSON")
    parser.add_argument("--list", action="store_true", help="also print every call in order")
    parser.add_argument("--parts", action="store_true", help="also print counts without parts")
    parser.add_argument("--verbose", action="store_true", help="also print switches of modules")
    options = parser.parse_args()
    results: dict[str, dict[str, int]] = {}
    for name, trace in FLOWS.items():
        if options.flows and not any(part in name for part in options.flows):
            continue
        tracer = trace()
        results[name] = tracer.summary()
        if options.list:
            for file, function in tracer.calls:
                print(f"{Path(file).relative_to(ROOT)}: {function}")
        if options.verbose:
            tracer.print_visits()
        if options.parts:
            print(name)
            tracer.print_parts()
    if options.json:
        print(json.dumps(results, indent=2))
        return 0
    columns = ("calls", "functions", "modules", "switches", "depth")
    print(f"{'flow':30}" + "".join(f"{column:>11}" for column in columns))
    for name, counts in results.items():
        print(f"{name:30}" + "".join(f"{counts[column]:11,}" for column in columns))
    return 0


if __name__ == "__main__":
    sys.exit(main())
