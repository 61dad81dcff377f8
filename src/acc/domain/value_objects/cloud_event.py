"""Events between agents: the attributes of CloudEvents 1.0, and patterns of event types."""

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from acc.domain.errors import InvalidInput
from acc.domain.value_objects.base import JsonData, Value

#: Larger events may be refused on the way; CloudEvents only guarantees this size.
MAX_EVENT_BYTES = 64 * 1024
MAX_TYPE_LENGTH = 200
_TYPE = re.compile(r"[\w-]+(\.[\w-]+)*")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
#: Keys of the data of an event that `publish` creates.
_ENVELOPE = frozenset({"event_type", "payload", "trace_id", "agent_name"})


class CloudEvent(Value, frozen=True, kw_only=True):
    """An event between agents. Source and id together identify it.

    `data` of an event that `publish` creates is an object with `event_type`, `payload`, `trace_id`
    and `agent_name`. `traceparent` continues the trace of the publisher. Other attributes are
    `extensions`.
    """

    id: str
    source: str
    type: str
    time: str = ""
    subject: str = ""
    datacontenttype: str = ""
    traceparent: str = ""
    data: JsonData = None
    extensions: Mapping[str, JsonData] = {}

    @property
    def payload(self) -> JsonData:
        """Return the payload that was published; for events of other programs, all data."""
        data = self.data
        return data["payload"] if isinstance(data, Mapping) and data.keys() == _ENVELOPE else data

    @property
    def trace_id(self) -> str:
        """Return the trace id that the publisher stated, or an empty string."""
        data = self.data
        is_ours = isinstance(data, Mapping) and data.keys() == _ENVELOPE
        return str(data["trace_id"]) if is_ours else ""


def check_event_type(event_type: object) -> str:
    """Return a type of events to publish; InvalidInput if it is not a dotted name."""
    if (
        not isinstance(event_type, str)
        or len(event_type) > MAX_TYPE_LENGTH
        or not _TYPE.fullmatch(event_type)
    ):
        raise InvalidInput(
            f"event type {event_type!r:.80} is invalid: use letters, digits, _ and -, separated "
            f'by dots, such as "order.created", at most {MAX_TYPE_LENGTH} characters'
        )
    return event_type


def check_event_patterns(patterns: object, what: str) -> tuple[str, ...]:
    """Return patterns of event types, such as `order.*`; InvalidInput if there is none."""
    found = (patterns,) if isinstance(patterns, str) else patterns
    is_valid = isinstance(found, Sequence) and all(
        isinstance(one, str) and _TYPE.fullmatch(one.replace("*", "x")) for one in found
    )
    if not is_valid or not found:
        raise InvalidInput(
            f'{what} must be patterns of event types such as ("order.*",), got {patterns!r}'
        )
    assert isinstance(found, Sequence)  # noqa: S101 - checked above
    return tuple(found)


def matches_event_type(patterns: Sequence[str], event_type: str) -> bool:
    """Return True if a type matches a pattern; `*` stands for any text, dots included."""
    return any(fnmatchcase(event_type, pattern) for pattern in patterns)


def check_subscription_name(name: str) -> str:
    """Return the name of a subscription; InvalidInput if a carrier could not use it."""
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"the name of a subscription must have 1 to 64 letters, digits, _ or -, got {name!r}"
        )
    return name
