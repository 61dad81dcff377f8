"""Events over NATS JetStream."""

import asyncio
from collections.abc import Sequence
from typing import Any

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import (
    AuthorizationError,
    Error,
    MaxPayloadError,
    MsgAlreadyAckdError,
    NoServersError,
)
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, StreamConfig
from nats.js.errors import (
    APIError,
    NoStreamResponseError,
    NotFoundError,
    ServiceUnavailableError,
)

from acc.adapters.events.location import carrier_label
from acc.application.events.cloud_events import MEDIA_TYPE, encode_cloud_event, event_key
from acc.domain.errors import CarrierFailed
from acc.domain.value_objects.cloud_event import CloudEvent, matches_event_type
from acc.ports.outbound.event_ports import (
    DELIVERY_LEASE_SECONDS,
    EVENT_RETENTION_SECONDS,
    EventDelivery,
)

STREAM = "ACC_EVENTS"
SUBJECT = "acc.events"
#: The server recognises an event that is published again for so many seconds.
_DUPLICATE_WINDOW_SECONDS = 600.0
_TIMEOUT_SECONDS = 5
#: Of a request for events; a wait of 0 would end before the server answers.
_MIN_FETCH_SECONDS = 0.2


class _Connection:
    """A connection to a server whose stream exists, opened on first use."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client: Client | None = None
        self._stream: JetStreamContext | None = None
        self._lock = asyncio.Lock()

    async def stream(self) -> JetStreamContext:
        """Return the API of the stream, another one after each new connection.

        The stream is created if it does not exist.
        """
        async with self._lock:
            if self._client is None or self._client.is_closed:
                self._client, self._stream = await self._connect(), None
            if self._stream is None:
                context = self._client.jetstream(timeout=_TIMEOUT_SECONDS)
                await _create_stream(context)
                self._stream = context
        return self._stream

    async def _connect(self) -> Client:
        client = Client()
        try:
            await client.connect(
                self._url,
                name="acc",
                error_cb=_ignore,
                connect_timeout=_TIMEOUT_SECONDS,
                max_reconnect_attempts=1,
                allow_reconnect=False,
            )
        except BaseException:
            await client.close()  # also the socket of a connection that was refused
            raise
        return client

    async def aclose(self) -> None:
        """Close the connection."""
        if self._client is not None and not self._client.is_closed:
            await self._client.close()

    def convert(self, error: BaseException) -> CarrierFailed:
        """Return the error that the caller gets: the server, the reason and what to do.

        The stream may have been deleted, so it is looked for again.
        """
        if isinstance(error, APIError | NoStreamResponseError):
            self._stream = None
        label = carrier_label(self._url)
        if isinstance(error, AuthorizationError) or "authorization" in str(error).lower():
            return CarrierFailed(
                f"{label}: the server rejects the credentials; check user and password, or the "
                "token of the URL"
            )
        if isinstance(error, ServiceUnavailableError):
            return CarrierFailed(
                f"{label}: JetStream is not available; start the server with -js, and check the "
                "account"
            )
        if isinstance(error, MaxPayloadError):
            return CarrierFailed(
                f"{label}: the event is larger than a message of the server may be; set its "
                "max_payload to 128KB or more"
            )
        if isinstance(error, NoStreamResponseError):
            return CarrierFailed(
                f"{label}: no stream stores the event; add the subject {SUBJECT}.> to the stream "
                f"{STREAM}, or delete that stream, which is then created again"
            )
        if isinstance(error, APIError):
            return CarrierFailed(f"{label}: the server rejected the request: {error.description}")
        return CarrierFailed(
            f"{label}: the server cannot be reached ({type(error).__name__}); check host and port "
            "of the URL, and that the server runs"
        )


_FAILURES = (Error, NoServersError, OSError, TimeoutError, ValueError)


class NatsPublisher:
    """Publishes events to the stream `ACC_EVENTS`, each under the subject of its type."""

    def __init__(self, url: str) -> None:
        self._connection = _Connection(url)

    async def check(self) -> None:
        """Return if the server has the stream, which is created if it does not exist."""
        try:
            await self._connection.stream()
        except _FAILURES as error:
            raise self._connection.convert(error) from error

    async def publish(self, event: CloudEvent) -> None:
        """Return once the server has stored the event."""
        body = encode_cloud_event(event)
        headers = {"Nats-Msg-Id": event_key(event), "Content-Type": MEDIA_TYPE}
        try:
            stream = await self._connection.stream()
            await stream.publish(f"{SUBJECT}.{event.type}", body, headers=headers)
        except _FAILURES as error:
            raise self._connection.convert(error) from error

    async def aclose(self) -> None:
        """Close the connection."""
        await self._connection.aclose()


class NatsSubscription:
    """A durable consumer of the stream `ACC_EVENTS`, which several processes may share."""

    def __init__(
        self,
        url: str,
        *,
        name: str,
        types: Sequence[str],
        lease: float = DELIVERY_LEASE_SECONDS,
    ) -> None:
        self._connection = _Connection(url)
        self._name = name
        self._types = tuple(types)
        self._lease = lease
        self._consumer: tuple[JetStreamContext, Any] | None = None
        self._messages: dict[str, Msg] = {}

    async def receive(self, *, limit: int, wait: float) -> tuple[EventDelivery, ...]:
        """Return up to `limit` deliveries; wait so many seconds for the first."""
        deliveries: list[EventDelivery] = []
        loop = asyncio.get_running_loop()
        deadline = loop.time() + max(wait, _MIN_FETCH_SECONDS)
        try:
            consumer = await self._bind()
            while not deliveries and (remaining := deadline - loop.time()) > 0:
                try:
                    messages = await consumer.fetch(limit, timeout=remaining)
                except TimeoutError:
                    break
                for message in messages:
                    event_type = message.subject.removeprefix(f"{SUBJECT}.")
                    if not matches_event_type(self._types, event_type):
                        await message.ack()
                        continue
                    token = str(message.metadata.sequence.stream)
                    self._messages[token] = message
                    attempts = message.metadata.num_delivered or 1
                    deliveries.append(EventDelivery(token, message.data, attempts))
        except _FAILURES as error:
            self._consumer = None
            raise self._connection.convert(error) from error
        return tuple(deliveries)

    async def acknowledge(self, delivery: EventDelivery) -> None:
        """End a delivery; the event is not delivered again."""
        message = self._messages.pop(delivery.token, None)
        if message is not None:
            try:
                await message.ack_sync(timeout=_TIMEOUT_SECONDS)
            except MsgAlreadyAckdError:
                return
            except _FAILURES as error:
                raise self._connection.convert(error) from error

    async def extend(self, delivery: EventDelivery) -> None:
        """Start the lease of a delivery again."""
        message = self._messages.get(delivery.token)
        if message is not None:
            try:
                await message.in_progress()
            except MsgAlreadyAckdError:
                return
            except _FAILURES as error:
                raise self._connection.convert(error) from error

    async def postpone(self, delivery: EventDelivery, *, seconds: float) -> None:
        """Deliver the event again, not before so many seconds, at most a lease."""
        message = self._messages.pop(delivery.token, None)
        if message is not None:
            try:
                await message.nak(delay=min(seconds, self._lease) or None)
            except MsgAlreadyAckdError:
                return
            except _FAILURES as error:
                raise self._connection.convert(error) from error

    async def backlog(self) -> int:
        """Return the number of unacknowledged events, delivered or not."""
        try:
            info = await (await self._bind()).consumer_info()
        except _FAILURES as error:
            self._consumer = None
            raise self._connection.convert(error) from error
        return int(info.num_pending or 0) + int(info.num_ack_pending or 0)

    async def aclose(self) -> None:
        """Close the connection; deliveries that were not acknowledged are repeated."""
        await self._connection.aclose()

    async def _bind(self) -> Any:
        stream = await self._connection.stream()
        if self._consumer is None or self._consumer[0] is not stream:
            config = ConsumerConfig(
                durable_name=self._name,
                ack_policy=AckPolicy.EXPLICIT,
                deliver_policy=DeliverPolicy.ALL,
                ack_wait=self._lease,
                max_deliver=-1,
            )
            await stream.add_consumer(STREAM, config)
            self._consumer = (stream, await stream.pull_subscribe_bind(self._name, STREAM))
        return self._consumer[1]


async def _create_stream(context: JetStreamContext) -> None:
    """Create the stream if it does not exist."""
    try:
        await context.stream_info(STREAM)
    except NotFoundError:
        await context.add_stream(
            StreamConfig(
                name=STREAM,
                subjects=[f"{SUBJECT}.>"],
                max_age=EVENT_RETENTION_SECONDS,
                duplicate_window=_DUPLICATE_WINDOW_SECONDS,
            )
        )


async def _ignore(error: Exception) -> None:
    """Ignore errors of the connection: the next call raises them."""
