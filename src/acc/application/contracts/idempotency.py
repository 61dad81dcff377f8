"""Idempotency of intents: a request with a known id gets the recorded response."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from acc.application.contracts.intents import IntentEntry
from acc.domain.contract_errors import IntentNotCompleted, RequestIdReused
from acc.domain.errors import AccError, InvalidInput
from acc.domain.value_objects.content import Part

#: Recorded responses of a runner in this process; the oldest are forgotten.
MAX_RECORDED_REQUESTS = 10_000
#: Claims that can change the response, beside the permissions.
_CLAIMS = ("user_id", "session_id", "debug_mode")
_ENCODER = msgspec.json.Encoder(order="deterministic")


class IntentOutputs(dict[str, Any]):
    """The outputs of an intent; `repeated` is True if they were recorded for an earlier request.

    `task_id` is the task of the call, if it was executed by a server.
    """

    def __init__(
        self, outputs: Mapping[str, Any], *, repeated: bool = False, task_id: str = ""
    ) -> None:
        super().__init__(outputs)
        self.repeated = repeated
        self.task_id = task_id


class RequestKey(NamedTuple):
    """What identifies a request: an id derived from caller, intent and key, and its content."""

    key: str
    id: str
    digest: str

    def check(self, recorded: str) -> None:
        """Raise RequestIdReused if the recorded request had another content."""
        if recorded != self.digest:
            raise RequestIdReused(self.key)


def request_key(entry: IntentEntry, parts: Sequence[Part], *owner: str) -> RequestKey | None:
    """Return what identifies a request, or None if it has no id.

    The key is `context.idempotency_key`, or `context.request_id`. The content are the parts of the
    message, memory, permissions, user, session and debug mode. Times and trace ids are not part of
    it, because they differ when a client repeats a request.
    """
    key = entry.context.get("idempotency_key") or entry.context.get("request_id")
    if not key:
        return None
    caller = entry.context.get("caller", "")
    delegation = None if entry.delegation is None else entry.delegation.to_json()
    permissions = sorted(entry.context.get("permissions", ()))
    sent = [[part.data, part.text, part.url, part.raw] for part in parts]
    content: list[Any] = [sent, entry.memory, delegation, permissions]
    if claims := {name: entry.context[name] for name in _CLAIMS if name in entry.context}:
        content.append(claims)
    try:
        digest = sha256(_ENCODER.encode(content)).hexdigest()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"the inputs are not JSON data: {error}") from None
    source = _ENCODER.encode([*owner, caller, entry.skill, key])
    return RequestKey(key, f"request-{sha256(source).hexdigest()[:40]}", digest)


class _Record:
    def __init__(self, digest: str) -> None:
        self.digest = digest
        self.lock = asyncio.Lock()
        self.outputs: Mapping[str, Any] | None = None
        self.error: AccError | None = None


class RecordedRequests:
    """The responses to the requests of one runner, as long as its process lives."""

    def __init__(self) -> None:
        self._records: OrderedDict[str, _Record] = OrderedDict()

    async def once(
        self, request: RequestKey, execute: Callable[[], Awaitable[Mapping[str, Any]]]
    ) -> IntentOutputs:
        """Return the outputs of a request, which is executed unless it was before.

        A request that must be rejected is rejected earlier, so that it may be corrected.
        Concurrent requests with the same id wait for the first one.
        """
        record = self._records.get(request.id)
        if record is None:
            record = self._records[request.id] = _Record(request.digest)
            if len(self._records) > MAX_RECORDED_REQUESTS:
                self._records.popitem(last=False)
        request.check(record.digest)
        async with record.lock:
            if record.error is not None:
                raise record.error
            if record.outputs is not None:
                return IntentOutputs(record.outputs, repeated=True)
            try:
                record.outputs = await execute()
            except AccError as error:
                record.error = error
                raise
            except asyncio.CancelledError:
                record.error = IntentNotCompleted(
                    f"the request {request.key[:100]!r} was canceled while it was executed. A "
                    "request_id is executed once, because it may have had effects: check them, "
                    "then send the request again with a new request_id"
                )
                raise
            return IntentOutputs(record.outputs)
