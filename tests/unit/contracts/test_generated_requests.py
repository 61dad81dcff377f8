"""Ten thousand generated requests to `/run` and to intents: no internal error, no effect.

The requests are mutations of valid ones, made by a generator with a fixed seed, because Hypothesis
needs several times the CPU time of the requests themselves. Smaller samples with shrinking are in
`test_run_requests.py`.
"""

import json
import random
from typing import Any

import msgspec
import pytest
from arbitrary_intents import anything, executed, summarize

from acc.a2a import RateLimiter, create_app
from acc.contracts import IntentAgent
from acc.domain.value_objects.contract import INTENTS_EXTENSION
from acc.domain.value_objects.principal import ANONYMOUS
from acc.domain.value_objects.task import TaskQuery

BATCHES, REQUESTS_PER_BATCH = 10, 1_000
#: Client errors of `/run` and HTTP+JSON.
CLIENT_ERRORS = {400, 404, 409, 413, 415, 422, 429}
#: Client errors of JSON-RPC and A2A: everything except internal errors.
INTERNAL_ERROR = -32603
TEXTS = (
    "",
    "a",
    "text",
    "要約してください",
    "x" * 300,
    "\x00",
    "\ud7ff",
    "a\r\nb",
    "../..",
    "{}",
    "1",
)
NUMBERS = (0, 1, -1, 2**31, 2**63, -(2**63), 10**30, 0.5, 1e308, -0.0)
NAMES = ("text", "length", "tags", "limit", "txt", "_x", "user:a", "記憶", "__proto__", "")
CLAIMS = (
    "caller",
    "timestamp",
    "request_id",
    "idempotency_key",
    "nonce",
    "trace_id",
    "session_id",
    "user_id",
    "permissions",
    "extra",
)


class Charges(RateLimiter):
    """A limiter that records what was charged for model calls."""

    charged: list[str]

    async def charge(self, caller: str, *, tokens: int, cost: float) -> None:
        self.charged.append(caller)


class Generator:
    """Makes requests from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - reproducible requests

    def value(self, depth: int = 0) -> Any:
        choose = self._random.random()
        if depth > 3 or choose < 0.35:
            return self._random.choice(TEXTS)
        if choose < 0.55:
            return self._random.choice((None, True, False, *NUMBERS))
        if choose < 0.75:
            return [self.value(depth + 1) for _ in range(self._random.randrange(4))]
        return self.fields(NAMES, depth + 1)

    def fields(self, names: tuple[str, ...], depth: int = 0) -> dict[str, Any]:
        chosen = self._random.sample(names, self._random.randrange(min(len(names), 5)))
        return {name: self.value(depth + 1) for name in chosen}

    def payload(self) -> Any:  # noqa: C901 - one case per kind of change
        """Return a valid call with up to three changes."""
        call: dict[str, Any] = {
            "intent": self._random.choice(("summarize", "summarize", "anything")),
            "inputs": {"text": self._random.choice(TEXTS)},
            "memory": {},
            "context": {},
        }
        for _ in range(self._random.randrange(4)):
            match self._random.randrange(9):
                case 0:
                    call["inputs"] = self.fields(NAMES)
                case 1 if isinstance(call.get("inputs"), dict):
                    call["inputs"][self._random.choice(NAMES)] = self.value()
                case 2:
                    call["context"] = self.fields(CLAIMS)
                case 3:
                    call["memory"] = self.fields(NAMES)
                case 4:
                    call[self._random.choice(tuple(call) or ("intent",))] = self.value()
                case 5 if call:
                    del call[self._random.choice(tuple(call))]
                case 6:
                    call[self._random.choice(("delegated_intent", "fallback", "x"))] = self.value()
                case 7:
                    call["intent"] = self._random.choice(("Summarize", "SendMessage", "", "要約"))
                case 8 if isinstance(call.get("inputs"), dict):
                    call["inputs"] = {"text": "t", "length": self._random.choice(("short", "x"))}
        return call if self._random.random() < 0.95 else self.value()

    def body(self, document: Any) -> bytes:
        """Return a document as JSON, damaged in one of ten cases."""
        body = msgspec.json.encode(document)
        match self._random.randrange(40):
            case 0:
                return body[: self._random.randrange(len(body) + 1)]
            case 1:
                at = self._random.randrange(len(body) + 1)
                return body[:at] + self._random.randbytes(3) + body[at:]
            case 2:
                return b"[" * self._random.choice((50, 5_000)) + body
            case 3:
                return body.replace(b'"inputs"', b'"inputs":{"text":"a"},"inputs"', 1)
        return body

    def request(self) -> tuple[str, bytes, dict[bytes, bytes]]:
        """Return path, body and headers of a request."""
        call = self.payload()
        head = {b"content-type": b"application/json"}
        if self._random.random() < 0.02:
            head[b"content-type"] = self._random.choice((b"text/plain", b"", b"application/x-json"))
        form = self._random.randrange(4)
        if form == 0 or not isinstance(call, dict):
            return "/run", self.body(call), head
        name = call.pop("intent", "summarize")
        if form == 1:
            request = {"jsonrpc": "2.0", "id": self.value(4), "method": name, "params": call}
            return "/", self.body(request), head
        head |= {b"a2a-version": b"1.0", b"a2a-extensions": INTENTS_EXTENSION.encode()}
        entry = {"skill": name, "context": call.get("context"), **self._random.choice(({}, call))}
        message = {
            "messageId": self._random.randbytes(8).hex(),
            "role": "ROLE_USER",
            "parts": [{"data": call.get("inputs")}],
            "metadata": {INTENTS_EXTENSION: self._random.choice((entry, entry, self.value()))},
        }
        if form == 2:
            return "/message:send", self.body({"message": message}), head
        params = {"message": message}
        rpc = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
        return "/", self.body(rpc), head


async def post(app: Any, path: str, body: bytes, head: dict[bytes, bytes]) -> tuple[int, bytes]:
    """Return status and body of a response; a client library would take most of the time."""
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"host", b"desk"), *head.items()],
        "client": ("127.0.0.1", 1),
    }
    await app(scope, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


def is_accepted(path: str, status: int, body: bytes) -> bool:
    """Return True if the call was accepted; fail for an internal error."""
    assert status == 200 or status in CLIENT_ERRORS, body
    if path == "/" and status == 200:
        error = json.loads(body).get("error")
        assert error is None or error["code"] != INTERNAL_ERROR, error
        return error is None
    return status == 200


@pytest.mark.parametrize("seed", range(BATCHES))
async def test_generated_request_is_answered_or_has_no_effect(seed: int) -> None:
    limiter = Charges(["1000000/minute"])
    limiter.charged = []
    agent = IntentAgent(name="desk", intents=[summarize, anything])
    app = create_app(agent, public_url="http://desk", limiter=limiter)
    generator = Generator(seed)
    accepted = repeated = 0
    statuses: set[int] = set()
    async with app.lifespan():
        executed.clear()
        for _ in range(REQUESTS_PER_BATCH):
            path, content, head = generator.request()
            before = len(executed)
            status, body = await post(app, path, content, head)
            runs = len(executed) - before
            statuses.add(status)
            if is_accepted(path, status, body):
                accepted += 1
                assert runs <= 1
                if not runs:  # the recorded response of an earlier request id
                    repeated += 1
            else:
                assert runs == 0, (path, content, body)
        tasks = app.serve._tasks
        page = await tasks.list_tasks(ANONYMOUS.owner, TaskQuery(page_size=100))
        assert page.total == accepted - repeated
        store = app.serve.runner.services.sessions
        sessions = await store.sessions("desk", ANONYMOUS.caller)
        assert len(sessions) <= accepted - repeated
    assert limiter.charged == []
    assert 200 <= accepted <= 800, "the generator makes enough calls of both kinds"
    assert {200, 400, 404, 415} <= statuses
