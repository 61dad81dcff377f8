"""Construction of carriers, subscribers and relays of events."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acc.application.agents.base import BaseAgent
from acc.application.events.relay import EventRelay
from acc.application.events.subscriber import DEFAULT_CONCURRENCY, EventSubscriber
from acc.application.runtime.runner import SessionRunner
from acc.bootstrap.agents import Runner, make_stores
from acc.bootstrap.storage import check_store_version
from acc.domain.errors import InvalidInput, StorageFailed
from acc.domain.value_objects.cloud_event import check_event_patterns, check_subscription_name
from acc.domain.value_objects.run import RunConfig
from acc.ports.outbound.event_ports import (
    DELIVERY_LEASE_SECONDS,
    EventPublisherPort,
    EventSubscriptionPort,
)

if TYPE_CHECKING:
    from acc.ports.outbound.storage_ports import SessionStorePort

#: How long the end of a server waits for the events of its last runs.
_RELAY_STOP_SECONDS = 2.0
#: A carrier: the URL of a NATS, Valkey or Redis server, a store, or a runner of this process.
Carrier = str | Path | SessionRunner


def describe_carrier(carrier: str) -> str:
    """Return a carrier as it may be printed, without a password."""
    from acc.adapters.events.location import carrier_label

    return carrier_label(carrier)


def is_broker(carrier: object) -> bool:
    """Return True for a server that only carries events and has no sessions."""
    from acc.adapters.events.location import NATS_SCHEMES, VALKEY_SCHEMES, carrier_scheme

    return isinstance(carrier, str) and carrier_scheme(carrier) in NATS_SCHEMES | VALKEY_SCHEMES


async def require_events(carrier: str) -> None:
    """Raise StorageFailed if a store does not exist, so that a mistyped one is not created."""
    from acc.adapters.storage.location import parse_location

    if is_broker(carrier):
        return
    _check_scheme(carrier)
    location = parse_location(carrier)
    if isinstance(location, Path) and not location.exists():
        raise StorageFailed(
            f"{location}: the file does not exist; check the path, or pass --create to create it"
        )
    status = await check_store_version(carrier)
    if status.version == 0:
        raise StorageFailed(
            f"{status.location}: the database has no tables of acc; check the URL, or pass "
            "--create to create them"
        )


def make_publisher(carrier: Carrier) -> EventPublisherPort:
    """Return a publisher of events."""
    if is_broker(carrier):
        module = _broker_module(str(carrier))
        publisher: EventPublisherPort = module.Publisher(str(carrier))
        return publisher
    from acc.adapters.storage.event_log import LogPublisher

    return LogPublisher(_event_log(carrier), owns_log=not isinstance(carrier, SessionRunner))


def make_subscription(
    carrier: Carrier,
    *,
    name: str,
    events: Sequence[str],
    lease: float = DELIVERY_LEASE_SECONDS,
) -> EventSubscriptionPort:
    """Return a subscription to the events whose type matches one of the patterns."""
    from acc.adapters.storage.event_log import LogSubscription

    options: dict[str, Any] = {
        "name": check_subscription_name(name),
        "types": check_event_patterns(events, "events"),
        "lease": lease,
    }
    if is_broker(carrier):
        module = _broker_module(str(carrier))
        subscription: EventSubscriptionPort = module.Subscription(str(carrier), **options)
        return subscription
    is_own = not isinstance(carrier, SessionRunner)
    return LogSubscription(_event_log(carrier), **options, owns_log=is_own)


@asynccontextmanager
async def open_subscriber(
    agent: BaseAgent | SessionRunner,
    *,
    events: Sequence[str],
    source: Carrier,
    store: str | Path = "",
    name: str = "",
    concurrency: int = DEFAULT_CONCURRENCY,
    lease: float = DELIVERY_LEASE_SECONDS,
    config: RunConfig | None = None,
) -> AsyncIterator[EventSubscriber]:
    """Return a subscriber that runs an agent once for every event.

    `store` has the sessions of the runs, by which repeated deliveries are recognised; by default it
    is the source if that is a store. An agent may be passed as a runner, with its store.
    """
    async with AsyncExitStack() as stack:
        if isinstance(agent, SessionRunner):
            runner = agent
        else:
            if not store and not isinstance(source, str | Path):
                raise InvalidInput("pass store=..., or a Runner in place of the agent")
            if not store and is_broker(source):
                raise InvalidInput(
                    "events of a broker need a store for the sessions of the agent, by which "
                    "repeated deliveries are recognised: name a SQLite file or a PostgreSQL "
                    "database with --store"
                )
            place = store or str(source)
            if not store:
                _check_scheme(str(source))
            runner = Runner(agent, app_name=name or agent.name, store=place, config=config)
            stack.push_async_callback(runner.services.aclose)
            if str(place) == str(source):
                source = runner  # one connection to the store
        own = name or runner.agent.name
        subscription = make_subscription(source, name=own, events=events, lease=lease)
        stack.push_async_callback(subscription.aclose)
        yield EventSubscriber(
            runner,
            subscription,
            _event_log(runner),
            name=own,
            concurrency=concurrency,
            lease=lease,
        )


@asynccontextmanager
async def open_relay(
    source: Carrier, target: Carrier, *, events: Sequence[str] = ("*",), name: str = "relay"
) -> AsyncIterator[EventRelay]:
    """Return a relay from the store of agents to another carrier."""
    if is_broker(source):
        raise InvalidInput(
            "a relay reads from the store of the agents that publish: name a SQLite file or a "
            "PostgreSQL database"
        )
    if isinstance(source, str | Path) and isinstance(target, str | Path):
        check_relay(source, str(target))
    async with AsyncExitStack() as stack:
        subscription = make_subscription(source, name=name, events=events)
        stack.push_async_callback(subscription.aclose)
        publisher = make_publisher(target)
        stack.push_async_callback(publisher.aclose)
        yield EventRelay(subscription, publisher)


def check_relay(store: str | Path, target: str) -> None:
    """Raise InvalidInput if events of a store cannot be sent to a carrier, if one is given."""
    from acc.adapters.storage.location import parse_location

    if is_broker(target):
        _broker_module(target)
    if not target or is_broker(target):
        return
    _check_scheme(target)
    place = parse_location(target)
    if place is None:
        raise InvalidInput("events cannot be sent to memory; name a broker or another store")
    if place == parse_location(store):
        raise InvalidInput(
            f"events are in the store {describe_carrier(target)} already, where `acc subscribe "
            "--from` finds them; name another carrier, such as nats://HOST:4222"
        )
    if isinstance(place, Path):
        _check_file(place)


def _check_file(path: Path) -> None:
    """Raise InvalidInput if a SQLite file can never be opened or created."""
    if not path.parent.is_dir():
        raise InvalidInput(f"events cannot be sent to {path}: {path.parent} is not a directory")
    try:
        with path.open("rb") as file:
            start = file.read(16)
    except FileNotFoundError:
        return
    except OSError as error:
        raise InvalidInput(f"events cannot be sent to {path}: {error.strerror}") from None
    if start not in (b"", b"SQLite format 3\0"):
        raise InvalidInput(f"events cannot be sent to {path}: it is not a SQLite file")


@asynccontextmanager
async def running_relay(runner: SessionRunner, target: str) -> AsyncIterator[None]:
    """Send the events of a runner to a carrier, if any, while the context is open.

    What is not sent at the end stays in the store, for the next relay.
    """
    if not target:
        yield
        return
    async with open_relay(runner, target) as relay, asyncio.TaskGroup() as group:
        sending = group.create_task(relay.run())
        try:
            yield
        finally:
            relay.stop()
            await asyncio.wait([sending], timeout=_RELAY_STOP_SECONDS)
            sending.cancel()


def _event_log(carrier: Carrier) -> Any:
    """Return the log of events of a store."""
    sessions: SessionStorePort
    if isinstance(carrier, SessionRunner):
        sessions = carrier.services.sessions
    else:
        from acc.adapters.system.clock import SystemClock

        _check_scheme(str(carrier))
        sessions, _ = make_stores(carrier, SystemClock())
    event_log = getattr(sessions, "event_log", None)
    if event_log is None:
        raise InvalidInput(
            f"{type(sessions).__name__} has no event_log(); events need a store of acc: "
            '"memory", the path of a SQLite file or postgresql://USER@HOST/DATABASE'
        )
    return event_log()


def _check_scheme(carrier: str) -> None:
    from acc.adapters.events.location import carrier_scheme

    scheme = carrier_scheme(carrier)
    if scheme and scheme not in ("postgresql", "postgres", "sqlite"):
        raise InvalidInput(
            f"events cannot be carried by {scheme!r}: use nats://HOST:4222, valkey://HOST:6379, "
            "redis://HOST:6379, postgresql://USER@HOST/DATABASE or the path of a SQLite file"
        )


class _Broker:
    def __init__(self, publisher: type[Any], subscription: type[Any]) -> None:
        self.Publisher = publisher
        self.Subscription = subscription


def _broker_module(url: str) -> _Broker:
    from acc.adapters.events.location import NATS_SCHEMES, carrier_scheme, check_broker_url

    check_broker_url(url)
    if carrier_scheme(url) in NATS_SCHEMES:
        if find_spec("nats") is None:
            raise InvalidInput(
                "events over NATS require nats-py; run: pip install 'acc-agents[nats]'"
            )
        from acc.adapters.events.nats import NatsPublisher, NatsSubscription

        return _Broker(NatsPublisher, NatsSubscription)
    if find_spec("valkey") is None:
        raise InvalidInput(
            "events over Valkey or Redis require valkey; run: pip install 'acc-agents[valkey]'"
        )
    from acc.adapters.events.valkey import ValkeyPublisher, ValkeySubscription

    return _Broker(ValkeyPublisher, ValkeySubscription)
