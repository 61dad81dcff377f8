"""Export of spans and metrics with the SDK of OpenTelemetry."""

# Imported before a meter provider exists: uvloop runs handlers of forks in the children that it
# starts, and that of the provider uses a lock that the handler of this module renews.
import concurrent.futures.thread  # noqa: F401
import logging
import threading
import time
from collections.abc import Callable, Sequence

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import DEFAULT_ON
from opentelemetry.trace import NoOpTracerProvider
from opentelemetry.trace import TracerProvider as AnyTracerProvider

from acc.adapters.tracing.light_metrics import LightHistograms, LightPeriodicReader
from acc.adapters.tracing.light_spans import LightSpanExporter, LightTracerProvider

log = logging.getLogger("acc.tracing")
#: How long the end of a process waits for the receiver.
_SHUTDOWN_SECONDS = 3.0
#: What the specification of OpenTelemetry sets without variables; texts have no limit.
_DEFAULT_LIMITS = SpanLimits(
    max_attributes=128,
    max_events=128,
    max_links=128,
    max_span_attributes=128,
    max_event_attributes=128,
    max_link_attributes=128,
    max_attribute_length=SpanLimits.UNSET,
    max_span_attribute_length=SpanLimits.UNSET,
)


class TelemetryExport:
    """The providers that export spans and metrics, until they are shut down.

    `traces` and `metrics` are sent over OTLP/HTTP, which the standard environment variables
    configure; `readers` get the metrics too. Without `traces` no span has an id of its own, so that
    an incoming trace context is passed on as it is. `histograms` are exported with the metrics.
    """

    def __init__(
        self,
        *,
        service_name: str,
        traces: bool,
        metrics: bool,
        readers: Sequence[MetricReader] = (),
        histograms: LightHistograms | None = None,
    ) -> None:
        # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES have priority.
        resource = Resource({"service.name": service_name}).merge(OTELResourceDetector().detect())
        self.tracer_provider: AnyTracerProvider = NoOpTracerProvider()
        self._traces: TracerProvider | LightTracerProvider | None = None
        if traces:
            self._traces = span_provider(resource, LightSpanExporter())
            self.tracer_provider = self._traces
        if metrics:
            exporter = OTLPMetricExporter()
            readers = (
                *readers,
                PeriodicExportingMetricReader(exporter)
                if histograms is None
                else LightPeriodicReader(exporter, histograms),
            )
        self.meter_provider = MeterProvider(
            resource=resource, metric_readers=readers, shutdown_on_exit=False
        )

    def shutdown(self) -> None:
        """Export what is left and stop; after a few seconds without success, what is left is lost.

        The SDK alone would wait for its timeouts and retries, first for spans, then for metrics.
        """
        stops: list[Callable[[], object]] = [self.meter_provider.shutdown]
        if self._traces is not None:
            stops.append(self._traces.shutdown)
        # Daemon threads do not delay the end of the process.
        threads = [threading.Thread(target=stop, name="acc otel", daemon=True) for stop in stops]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + _SHUTDOWN_SECONDS
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if any(thread.is_alive() for thread in threads):
            log.warning(
                "spans and metrics could not be exported within %g seconds; check "
                "OTEL_EXPORTER_OTLP_ENDPOINT, and that the receiver runs",
                _SHUTDOWN_SECONDS,
            )


def span_provider(
    resource: Resource, exporter: SpanExporter
) -> TracerProvider | LightTracerProvider:
    """Return a provider that exports in batches.

    The provider of the SDK has samplers and limits, and costs more. It is used if the environment
    configures them.
    """
    # Commands call `shutdown`, so that no exit handler is needed.
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    processor = BatchSpanProcessor(exporter)
    if provider.sampler is DEFAULT_ON and vars(SpanLimits()) == vars(_DEFAULT_LIMITS):
        return LightTracerProvider(resource, processor)
    provider.add_span_processor(processor)
    return provider
