"""Export of spans and metrics over OTLP/HTTP with the SDK of OpenTelemetry."""

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor


class OtlpExport:
    """The providers that export spans and metrics, until they are shut down.

    The standard environment variables configure them.
    """

    def __init__(self, *, service_name: str, metrics: bool, traces: bool) -> None:
        # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES have priority.
        resource = Resource({"service.name": service_name}).merge(OTELResourceDetector().detect())
        # Commands call `shutdown`, so that no exit handler is needed.
        self.tracer_provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        if traces:
            self.tracer_provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        readers = [PeriodicExportingMetricReader(OTLPMetricExporter())] if metrics else []
        self.meter_provider = MeterProvider(
            resource=resource, metric_readers=readers, shutdown_on_exit=False
        )

    def shutdown(self) -> None:
        """Export what is left and stop."""
        self.tracer_provider.shutdown()
        self.meter_provider.shutdown()
