"""What tests export: spans and metrics in memory."""

from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Telemetry:
    """What was exported in a test."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.meters = MeterProvider(metric_readers=[self._reader], shutdown_on_exit=False)

    def spans(self) -> dict[str, ReadableSpan]:
        return {span.name: span for span in self._exporter.get_finished_spans()}

    def finished(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def names(self) -> list[str]:
        return [span.name for span in self._exporter.get_finished_spans()]

    def metrics(self) -> dict[str, Any]:
        data = self._reader.get_metrics_data()
        found: dict[str, Any] = {}
        for resource in data.resource_metrics if data is not None else ():
            for scope in resource.scope_metrics:
                found |= {metric.name: metric.data.data_points for metric in scope.metrics}
        return found
