"""`acc subscribe` and `acc relay`: events between agents."""

import asyncio
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated

from cyclopts import Parameter

from acc.application.events.cloud_events import decode_cloud_event
from acc.application.events.subscriber import (
    DEFAULT_CONCURRENCY,
    FAILED_OUTCOMES,
    EventSubscriber,
    HandledEvent,
)
from acc.bootstrap.agents import check_models, load_agent
from acc.bootstrap.events import (
    describe_carrier,
    open_relay,
    open_subscriber,
    require_events,
)
from acc.bootstrap.tracing import start_tracing
from acc.cli.options import OtelOption
from acc.cli.output import configure_logging, console, count_noun, show_controls
from acc.cli.session_options import AgentReference
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.cloud_event import CloudEvent
from acc.domain.value_objects.run import RunConfig
from acc.ports.outbound.event_ports import DeadLetter

_ALL = "all"
_MAX_LETTERS = 10_000
_MAX_TEXT_LENGTH = 200

_Create = Annotated[bool, Parameter(help="Create stores that do not exist.", negative=())]


def subscribe(
    agent: AgentReference,
    /,
    *,
    events: Annotated[
        tuple[str, ...],
        Parameter(
            help="Types of events, such as order.created or 'order.*'.",
            negative=(),
            consume_multiple=False,
        ),
    ] = ("*",),
    source: Annotated[
        str,
        Parameter(
            name="--from",
            help="The carrier: nats://HOST:4222, valkey://HOST:6379, redis://HOST:6379, the path "
            "of a SQLite file or postgresql://USER@HOST/DATABASE.",
        ),
    ],
    store: Annotated[
        str,
        Parameter(
            help="The store of the agent's sessions. [default: the carrier, if it is one]",
            show_default=False,
        ),
    ] = "",
    name: Annotated[
        str,
        Parameter(
            help="The name of the subscription. [default: the name of the agent]",
            show_default=False,
        ),
    ] = "",
    concurrency: Annotated[
        int, Parameter(help="Events that are handled at the same time.", show_default=True)
    ] = DEFAULT_CONCURRENCY,
    timeout: Annotated[float | None, Parameter(help="Seconds that a run may take.")] = None,
    until_idle: Annotated[
        bool, Parameter(help="Exit when there are no more events.", negative=())
    ] = False,
    dead_letters: Annotated[
        bool, Parameter(help="List events whose runs failed, and exit.", negative=())
    ] = False,
    replay: Annotated[
        str, Parameter(help=f'Run the agent again for a dead letter, by its id, or for "{_ALL}".')
    ] = "",
    discard: Annotated[
        str, Parameter(help=f'Delete a dead letter without a run, by its id, or "{_ALL}".')
    ] = "",
    create: _Create = False,
    otel: OtelOption = False,
) -> int:
    """Run an agent once for every event that other agents publish.

    An event that is delivered a second time starts no second run. Events whose runs fail, or whose
    tool calls have an unknown outcome after a crash, become dead letters. Ctrl-C or SIGTERM lets
    current runs end; events that were not handled are delivered later. With --until-idle, exit
    status 1 if the run of an event failed or could not be started.

    Example: acc subscribe shop.py:shipping --events 'order.*' --from shop.db
    """
    if sum(map(bool, (dead_letters, replay, discard))) > 1:
        raise InvalidInput("--dead-letters, --replay and --discard cannot be combined")
    loaded = load_agent(agent)
    if not dead_letters and not discard:
        check_models(loaded)
    configure_logging()

    async def work() -> int:
        for place in filter(None, (source, store)):
            if not create or dead_letters or replay or discard:
                await require_events(place)
        async with open_subscriber(
            loaded,
            events=events,
            source=source,
            store=store,
            name=name,
            concurrency=concurrency,
            config=RunConfig(timeout=timeout),
        ) as subscriber:
            if dead_letters:
                return await _list(subscriber)
            if replay:
                return await _replay(subscriber, replay)
            if discard:
                return await _discard(subscriber, discard)
            types = ", ".join(events)
            _stop_on_signals(subscriber.stop)
            _print(f"{loaded.name} handles {types} from {describe_carrier(source)}")
            failed = await subscriber.run(until_idle=until_idle, observer=_Printer())
        return 1 if until_idle and failed else 0

    tracing = start_tracing(requested=otel, service_name=loaded.name)
    try:
        return asyncio.run(work())
    finally:
        tracing.shutdown()


def relay(
    store: Annotated[
        str,
        Parameter(help="The store of the agents that publish: a SQLite file or a PostgreSQL URL."),
    ],
    /,
    *,
    to: Annotated[
        str, Parameter(help="nats://HOST:4222, valkey://HOST:6379, redis://HOST:6379 or a store.")
    ],
    events: Annotated[
        tuple[str, ...],
        Parameter(help="Types of events to send.", negative=(), consume_multiple=False),
    ] = ("*",),
    name: Annotated[
        str, Parameter(help="Relays with the same name share the work.", show_default=True)
    ] = "relay",
    until_idle: Annotated[
        bool, Parameter(help="Exit when there are no more events.", negative=())
    ] = False,
    create: _Create = False,
) -> int:
    """Send the events that agents published from their store to a broker.

    An event stays in the store until the broker has confirmed it.

    Example: acc relay shop.db --to nats://broker.example.com:4222
    """
    configure_logging()

    async def work() -> int:
        for place in (store, to):
            if not create:
                await require_events(place)
        async with open_relay(store, to, events=events, name=name) as started:
            _stop_on_signals(started.stop)
            _print(f"relay from {describe_carrier(store)} to {describe_carrier(to)}")
            count = await started.run(until_idle=until_idle)
            _print(f"sent {count_noun(count, 'event')}")
        return 0

    return asyncio.run(work())


class _Printer:
    def on_handled(self, handled: HandledEvent) -> None:
        """Print one line for a delivery."""
        _print(_line(handled))


def _line(handled: HandledEvent) -> str:
    event = handled.event
    what = f"invalid {handled.key}" if event is None else f"{event.type} {event.id}"
    text = " ".join(handled.text.split())[:_MAX_TEXT_LENGTH]
    return f"{what}: {handled.outcome.value.replace('_', ' ')}{': ' if text else ''}{text}"


async def _list(subscriber: EventSubscriber) -> int:
    letters = await subscriber.dead_letters(limit=_MAX_LETTERS)
    ids = Counter(_event_id(letter) for letter in letters)
    for letter in letters:
        event = _event_of(letter)
        if event is None:
            what = f"invalid {letter.key}"
        elif ids[event.id] > 1:
            what = f"{event.type} {letter.key} (id {event.id} from {event.source})"
        else:
            what = f"{event.type} {event.id}"
        _print(f"{what}: {' '.join(letter.reason.split())}")
    _print(count_noun(len(letters), "dead letter"))
    return 0


def _event_of(letter: DeadLetter) -> CloudEvent | None:
    try:
        return decode_cloud_event(letter.body)
    except InvalidInput:
        return None


def _event_id(letter: DeadLetter) -> str:
    event = _event_of(letter)
    return letter.key if event is None else event.id


async def _chosen(subscriber: EventSubscriber, which: str) -> list[DeadLetter]:
    """Return the dead letters with an id or key, or all."""
    letters = await subscriber.dead_letters(limit=_MAX_LETTERS)
    if which == _ALL:
        return list(letters)
    chosen = [letter for letter in letters if which in (letter.key, _event_id(letter))]
    if not chosen:
        raise InvalidInput(f"there is no dead letter {which!r}; list them with --dead-letters")
    if len(chosen) > 1:
        keys = ", ".join(letter.key for letter in chosen)
        raise InvalidInput(
            f"{len(chosen)} sources have an event with the id {which!r}; use a key instead: {keys}"
        )
    return chosen


async def _replay(subscriber: EventSubscriber, which: str) -> int:
    has_failed = False
    for letter in await _chosen(subscriber, which):
        try:
            handled = await subscriber.replay(letter)
        except InvalidInput as error:
            _print(f"{letter.key}: {error}")
            has_failed = True
            continue
        _print(_line(handled))
        has_failed = has_failed or handled.outcome in FAILED_OUTCOMES
    return 1 if has_failed else 0


async def _discard(subscriber: EventSubscriber, which: str) -> int:
    letters = await _chosen(subscriber, which)
    for letter in letters:
        await subscriber.discard(letter)
    _print(f"discarded {count_noun(len(letters), 'dead letter')}")
    return 0


def _stop_on_signals(stop: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError):  # Windows
            loop.add_signal_handler(number, stop)


def _print(text: str) -> None:
    console().print(show_controls(text), markup=False, highlight=False, soft_wrap=True)
