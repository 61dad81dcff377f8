"""Fixtures of traces in this process."""

from collections.abc import Iterator

import pytest
from telemetry import Telemetry

from acc import disable_tracing, enable_tracing


@pytest.fixture
def telemetry() -> Iterator[Telemetry]:
    exported = Telemetry()
    enable_tracing(tracer_provider=exported.provider, meter_provider=exported.meters)
    yield exported
    disable_tracing()
    exported.provider.shutdown()
    exported.meters.shutdown()
