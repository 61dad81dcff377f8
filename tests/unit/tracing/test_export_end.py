"""The end of the export: a receiver that does not answer delays a command only shortly."""

import threading
from typing import Any

import pytest

from acc.adapters.tracing import export as module
from acc.adapters.tracing.export import TelemetryExport


class BlockedProvider:
    """A provider whose receiver does not answer."""

    def __init__(self) -> None:
        self.answer = threading.Event()
        self.has_ended = threading.Event()

    def shutdown(self) -> None:
        self.answer.wait(30)
        self.has_ended.set()


def test_end_does_not_wait_for_a_receiver_without_answer(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_SHUTDOWN_SECONDS", 0.05)
    export = TelemetryExport(service_name="shop", traces=False, metrics=False)
    real, provider = export.meter_provider, BlockedProvider()
    blocked: Any = provider
    export.meter_provider = blocked
    export.shutdown()
    assert not provider.has_ended.is_set()
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" in caplog.text
    provider.answer.set()
    assert provider.has_ended.wait(10)
    real.shutdown()


def test_end_waits_for_a_receiver_that_answers(caplog: pytest.LogCaptureFixture) -> None:
    export = TelemetryExport(service_name="shop", traces=False, metrics=False)
    export.shutdown()
    assert caplog.text == ""
