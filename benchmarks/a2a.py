"""Compare the A2A server with bare Starlette and the official SDK in one interleaved run.

Each server runs in its own process, and only the CPU time of that process counts. The client uses
a few sockets that stay open. A value is the lower quartile over all rounds; a ratio is the median
of the ratios per round.
"""

import json
import os
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from a2a_servers import HOST, TOKEN
from measurement import Measurement

SERVERS = Path(__file__).with_name("a2a_servers.py")
CONNECTIONS = 8
ROUNDS = 20
REQUESTS = 400
STREAMS, EVENTS, PAUSE = 500, 20, 0.5
FEW, MANY = 100, 100_000


#: Build the request with a number.
Ask = Callable[[int], bytes]


class Server:
    """A server process."""

    def __init__(self, process: "subprocess.Popen[str]", port: int) -> None:
        self.process = process
        self.port = port
        self._sent = 0

    def connect(self) -> socket.socket:
        """Return a further connection."""
        return socket.create_connection((HOST, self.port))

    def close(self) -> None:
        """End the process."""
        self.process.terminate()
        self.process.wait(30)

    def cpu(self) -> float:
        """Return the seconds of CPU that the process has costs_by_name."""
        # By thread, in nanoseconds; the process as a whole is counted in hundredths of a second.
        threads = Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((one / "schedstat").read_text().split()[0]) for one in threads) / 1e9

    def peak(self) -> float:
        """Return the most memory that the process has had, in megabytes."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
        return 0.0

    def cost(self, ask: Ask, count: int, connections: int) -> float:
        """Return the CPU that a request takes, in microseconds, over connections that stay open."""
        turns = count // connections
        with ExitStack() as stack:
            sockets = [stack.enter_context(self.connect()) for _ in range(connections)]
            before = self.cpu()
            for _ in range(turns):
                for connection in sockets:
                    self._sent += 1
                    connection.sendall(ask(self._sent))
                for connection in sockets:
                    answer = _answer(connection)
                    if b'"result"' not in answer:
                        raise RuntimeError(f"refused: {answer[:300]!r}")
            return (self.cpu() - before) / (turns * connections) * 1e6


def _answer(connection: socket.socket) -> bytes:
    received = connection.recv(262_144)
    while b"\r\n\r\n" not in received:
        received += _more(connection)
    head, _, body = received.partition(b"\r\n\r\n")
    _, _, rest = head.lower().partition(b"content-length:")
    length = int(rest.partition(b"\r\n")[0])
    while len(body) < length:
        body += _more(connection)
    return body


def _more(connection: socket.socket) -> bytes:
    received = connection.recv(262_144)
    if not received:
        raise RuntimeError("the server closed the connection")
    return received


@contextmanager
def running(*arguments: str) -> Iterator[Server]:
    """Start a server, and end it."""
    process = subprocess.Popen(  # noqa: S603 - our own interpreter and code
        # -P, because this folder's a2a would hide the SDK's package.
        [sys.executable, "-P", str(SERVERS), *arguments],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    port = process.stdout.readline().strip()
    if not port:
        process.wait(30)
        raise RuntimeError(f"the server {' '.join(arguments)} did not start")
    with process.stdout:
        server = Server(process, _reached(int(port)))
        try:
            yield server
        finally:
            server.close()


def _reached(port: int) -> int:
    """Return the port once it answers."""
    for _ in range(300):
        try:
            socket.create_connection((HOST, port)).close()
        except ConnectionRefusedError:
            time.sleep(0.1)
        else:
            break
    return port


def call(method: str, params: dict[str, Any], number: int) -> bytes:
    """Return a JSON-RPC call of protocol version 1.0 as it goes over the wire."""
    body = json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
    return (
        f"POST / HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n"
        f"A2A-Version: 1.0\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {len(body)}\r\n\r\n"
        f"{body}"
    ).encode()


def send_message(number: int, text: str = "hello there", method: str = "SendMessage") -> bytes:
    """Return a message that no other process has sent."""
    name = f"{os.getpid()}-{number}"
    message = {"messageId": name, "role": "ROLE_USER", "parts": [{"text": text}]}
    return call(method, {"message": message}, number)


def get_task(number: int) -> bytes:
    """Ask for one of the tasks that were there from the beginning."""
    return call("GetTask", {"id": f"task-{number % FEW}"}, number)


def list_tasks(number: int) -> bytes:
    """Ask for the first page."""
    return call("ListTasks", {}, number)


def bench_a2a() -> list[Measurement]:
    """Measure requests, streams and stored tasks."""
    return [*_requests(), *_streams(), *_stored()]


def _requests() -> list[Measurement]:
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        servers = {
            "memory": stack.enter_context(running("acc")),
            "sqlite": stack.enter_context(running("acc", "--store", f"{folder}/tasks.db")),
        }
        missing = {}
        for kind in ("starlette", "sdk"):
            try:
                servers[kind] = stack.enter_context(running(kind))
            except RuntimeError as error:
                missing[kind] = str(error)
        plan: dict[str, tuple[Server, Ask]] = {
            name: (one, send_message) for name, one in servers.items()
        }
        costs_by_name = _in_turns(plan, REQUESTS)
        plan.pop("sdk", None)
        alone = _in_turns(plan, REQUESTS, ROUNDS // 2, connections=1)
        stack.close()
    lines = [
        Measurement(f"SendMessage, {what}", _low(costs_by_name[name]), 0, "us CPU")
        for name, what in (
            ("starlette", "bare Starlette that echoes"),
            ("memory", "run and stored in memory"),
            ("sqlite", "run and stored in SQLite"),
            ("sdk", "the official SDK, in memory"),
        )
        if name in costs_by_name
    ]
    for name, base, what, bar in (
        ("memory", "starlette", "in memory, against bare Starlette", 2.5),
        ("sqlite", "starlette", "in SQLite, against bare Starlette", 6),
    ):
        if base in missing:
            lines.append(Measurement(what, 0, bar, "times", missing=missing[base]))
        else:
            lines.append(
                Measurement(what, _ratio(costs_by_name[name], costs_by_name[base]), bar, "times")
            )
    if "starlette" in alone:
        # Without a bar, and to our disadvantage: nothing can be committed together.
        lines += [
            Measurement(
                f"{what}, one at a time", _ratio(alone[name], alone["starlette"]), 0, "times"
            )
            for name, what in (("memory", "in memory"), ("sqlite", "in SQLite"))
        ]
    what = "the official SDK against ours, in memory"
    if "sdk" in missing:
        return [*lines, Measurement(what, 0, 5, "times", missing=missing["sdk"])]
    return [
        *lines,
        Measurement(
            what, _ratio(costs_by_name["sdk"], costs_by_name["memory"]), 5, "times", at_least=True
        ),
    ]


def _in_turns(
    plan: dict[str, tuple[Server, Ask]],
    count: int,
    rounds: int = ROUNDS,
    connections: int = CONNECTIONS,
) -> dict[str, list[float]]:
    """Measure all in turns; the first round warms up and does not count."""
    costs_by_name: dict[str, list[float]] = {name: [] for name in plan}
    for _ in range(rounds + 1):
        for name, (server, ask) in plan.items():
            costs_by_name[name].append(server.cost(ask, count, connections))
    return {name: costs[1:] for name, costs in costs_by_name.items()}


def _low(costs: Sequence[float]) -> float:
    return statistics.quantiles(costs, n=4)[0]


def _ratio(costs: Sequence[float], base: Sequence[float]) -> float:
    return statistics.median(a / b for a, b in zip(costs, base, strict=True))


def _streams() -> list[Measurement]:
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for what, arguments in (
            ("in memory", ()),
            ("in SQLite", ("--store", f"{folder}/tasks.db")),
        ):
            with running("acc", *arguments) as server:
                late, in_order = _follow_streams(server)
                peak = server.peak()
            name = f"{STREAMS} streams of {EVENTS} events, {what}"
            lines += [
                Measurement(
                    f"{name}: delivered in order", in_order, STREAMS, "streams", at_least=True
                ),
                Measurement("the same, p99 of an event", _percentile(late, 99), 250, "ms"),
                Measurement("the same, most memory", peak, 300, "MB"),
            ]
    return lines


def _percentile(values: Sequence[float], percent: int) -> float:
    return statistics.quantiles(values, n=100)[percent - 1] if len(values) > 1 else float("inf")


class _Reader:
    """One stream: the received events and their delays."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.rest = b""
        self.numbers: list[int] = []
        self.late: list[float] = []
        self.is_open = False
        self.is_done = False

    def read(self) -> None:
        """Read the available bytes."""
        received = self.connection.recv(262_144)
        now = time.clock_gettime(time.CLOCK_MONOTONIC)
        self.is_open = True
        self.rest += received
        *events, self.rest = self.rest.split(b"\n\n")
        for event in events:
            self._take(event, now)
        self.is_done = self.is_done or not received or b"\r\n0\r\n" in received

    def _take(self, event: bytes, now: float) -> None:
        _, _, data = event.partition(b"data: ")
        if not data:
            return
        update = json.loads(data)["result"].get("artifactUpdate")
        if update and update["artifact"]["artifactId"] == "pieces":
            piece = json.loads(update["artifact"]["parts"][0]["text"])
            self.numbers.append(piece["number"])
            self.late.append((now - piece["at"]) * 1000)


def _follow_streams(server: Server) -> tuple[list[float], int]:
    """Return how late each event came, and how many streams were complete and in order."""
    selector = selectors.DefaultSelector()
    readers: list[_Reader] = []
    text = f"stream {EVENTS} {PAUSE}"
    deadline = time.monotonic() + EVENTS * PAUSE + 60

    def poll(seconds: float) -> None:
        for key, _ in selector.select(seconds):
            reader: _Reader = key.data
            reader.read()
            if reader.is_done:
                selector.unregister(reader.connection)

    with ExitStack() as stack:
        for number in range(STREAMS):
            connection = stack.enter_context(server.connect())
            connection.sendall(send_message(number, text, "SendStreamingMessage"))
            readers.append(_Reader(connection))
            selector.register(connection, selectors.EVENT_READ, readers[-1])
            # One after another, as clients come; what is measured are streams that are open.
            while not readers[-1].is_open and time.monotonic() < deadline:
                poll(1)
        while selector.get_map() and time.monotonic() < deadline:
            poll(1)
    complete = [reader for reader in readers if reader.numbers == list(range(EVENTS))]
    return [late for reader in readers for late in reader.late], len(complete)


def _stored() -> list[Measurement]:
    lines = []
    requests: dict[str, Ask] = {
        "SendMessage": send_message,
        "GetTask": get_task,
        "ListTasks": list_tasks,
    }
    with tempfile.TemporaryDirectory() as folder:
        for what, stores in (
            ("in memory", ((), ())),
            ("in SQLite", (("--store", f"{folder}/few.db"), ("--store", f"{folder}/many.db"))),
        ):
            with (
                running("acc", "--stored", str(FEW), *stores[0]) as few,
                running("acc", "--stored", str(MANY), *stores[1]) as many,
            ):
                for name, ask in requests.items():
                    count = 400 if name != "ListTasks" else 80
                    costs_by_name = _in_turns({"few": (few, ask), "many": (many, ask)}, count, 15)
                    ratio = _ratio(costs_by_name["many"], costs_by_name["few"])
                    label = f"{name} {what}, {MANY:,} tasks stored against {FEW}"
                    lines.append(Measurement(label, ratio, 1.3, "times"))
    return lines
