"""Descriptions of events in the terminal."""

from typing import Any

import pytest

from acc import Event, EventKind
from acc.cli.event_view import doing


@pytest.mark.parametrize(
    ("detail", "expected"),
    [
        ({"to": "travel", "reason": "rule"}, "chooses travel (rule)"),
        ({"from": "judge", "to": ["edit", "print"]}, "judge → edit, print"),
        ({"from": "judge", "to": []}, "judge → nowhere"),
    ],
)
def test_route_events_are_described(detail: dict[str, Any], expected: str) -> None:
    event = Event(kind=EventKind.ROUTE, run_id="r", author="a", detail=detail)
    assert doing(event) == expected
