"""Events between agents: publish, subscribe, relay."""

from acc.application.events.cloud_events import (
    decode_cloud_event,
    encode_cloud_event,
    event_of,
)
from acc.application.events.relay import EventRelay
from acc.application.events.subscriber import (
    EventOutcome,
    EventSubscriber,
    HandledEvent,
    HandledObserver,
)
from acc.application.tools.publish import PublishEventTool, publish_event
from acc.bootstrap.events import make_publisher, make_subscription, open_relay, open_subscriber
from acc.domain.errors import CarrierFailed
from acc.domain.value_objects.cloud_event import MAX_EVENT_BYTES, CloudEvent
from acc.ports.outbound.event_ports import (
    DeadLetter,
    EventDelivery,
    EventPublisherPort,
    EventSubscriptionPort,
)

__all__ = [
    "MAX_EVENT_BYTES",
    "CarrierFailed",
    "CloudEvent",
    "DeadLetter",
    "EventDelivery",
    "EventOutcome",
    "EventPublisherPort",
    "EventRelay",
    "EventSubscriber",
    "EventSubscriptionPort",
    "HandledEvent",
    "HandledObserver",
    "PublishEventTool",
    "decode_cloud_event",
    "encode_cloud_event",
    "event_of",
    "make_publisher",
    "make_subscription",
    "open_relay",
    "open_subscriber",
    "publish_event",
]
