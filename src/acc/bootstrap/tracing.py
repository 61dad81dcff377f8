"""Tracing and logs of this process; OpenTelemetry is not imported unless it is enabled."""

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Protocol

from acc.bootstrap.memory import version
from acc.bootstrap.settings import (
    captures_message_content,
    exporter_of,
    has_default_histograms,
    has_json_logs,
    has_otlp_endpoint,
    prometheus_address,
)
from acc.domain.call_options import explains_call
from acc.domain.errors import InvalidInput
from acc.ports.outbound.tracing_ports import MetricsPagePort, TracerPort

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from acc.adapters.tracing.light_metrics import LightHistograms
    from acc.adapters.tracing.prometheus import PrometheusMetrics


_INSTALL = "install OpenTelemetry: pip install 'acc-agents[otel]'"


class Tracing(Protocol):
    """Spans and metrics that are being exported."""

    def shutdown(self) -> None:
        """Export what is left and stop."""
        ...


class _NoTracing:
    def shutdown(self) -> None:
        """Do nothing."""


class _State:
    tracer: TracerPort | None = None
    metrics_page: MetricsPagePort | None = None


def current_tracer() -> TracerPort | None:
    """Return the tracer of this process, None if tracing is not enabled."""
    return _State.tracer


def current_metrics_page() -> MetricsPagePort | None:
    """Return the metrics that servers of this process publish, None if they do not."""
    return _State.metrics_page


@explains_call()
def enable_tracing(
    *,
    tracer_provider: "TracerProvider | None" = None,
    meter_provider: "MeterProvider | None" = None,
) -> None:
    """Trace the runs of runners and servers that are created from now on.

    The providers are those that the application has set for the process, unless others are given.
    """
    install_tracer(tracer_provider, meter_provider, None)


def install_tracer(
    tracer_provider: "TracerProvider | None",
    meter_provider: "MeterProvider | None",
    histograms: "LightHistograms | None",
) -> None:
    """Trace runners that are created from now on; `histograms` replace those of the meter."""
    try:
        from acc.adapters.tracing.otel import OtelTracer, global_providers
    except ImportError as error:
        raise InvalidInput(f"tracing needs {error.name}; {_INSTALL}") from None
    traces, metrics = global_providers()
    _State.tracer = OtelTracer(
        tracer_provider or traces,
        meter_provider or metrics,
        version=version(),
        captures_content=captures_message_content(),
        histograms=histograms,
    )


@explains_call()
def disable_tracing() -> None:
    """Do not trace runners that are created from now on."""
    _State.tracer = _State.metrics_page = None


def start_tracing(
    *, requested: bool = False, metrics_page: bool = False, service_name: str = "acc"
) -> Tracing:
    """Export spans and metrics if it is requested or the environment says so.

    They are sent over OTLP/HTTP. With `metrics_page`, servers publish the metrics at `/metrics`.
    `OTEL_METRICS_EXPORTER=prometheus` publishes them at the address of the standard variables.
    `OTEL_SDK_DISABLED=true` has priority. The other standard variables select exporters, endpoint,
    headers, sampler and resource.
    """
    traces, metrics = exporter_of("traces"), exporter_of("metrics")
    is_otlp = requested or has_otlp_endpoint() or "otlp" in (traces, metrics)
    is_configured = is_otlp or metrics_page or metrics == "prometheus"
    if not is_configured or exporter_of("sdk") == "none":
        return _NoTracing()
    for signal, name in (("TRACES", traces), ("METRICS", metrics)):
        supported = ("otlp", "prometheus", "none") if signal == "METRICS" else ("otlp", "none")
        if name and name not in supported:
            raise InvalidInput(
                f"OTEL_{signal}_EXPORTER={name} is not supported; use {' or '.join(supported)}"
            )
    try:
        from acc.adapters.tracing.export import TelemetryExport
        from acc.adapters.tracing.light_metrics import LightHistograms
        from acc.adapters.tracing.prometheus import PrometheusMetrics
    except ImportError as error:
        raise InvalidInput(f"tracing needs {error.name}; {_INSTALL}") from None
    histograms = LightHistograms("acc", version()) if has_default_histograms() else None
    page = PrometheusMetrics(histograms) if metrics_page or metrics == "prometheus" else None
    if page is not None and metrics == "prometheus":
        page.serve(*prometheus_address())
    export = TelemetryExport(
        service_name=service_name,
        traces=is_otlp and traces != "none",
        metrics=is_otlp and metrics in ("", "otlp"),
        readers=() if page is None else (page.reader,),
        histograms=histograms,
    )
    install_tracer(export.tracer_provider, export.meter_provider, histograms)
    _State.metrics_page = page if metrics_page else None
    return _Export(export, page)


class _Export:
    def __init__(self, export: Tracing, page: "PrometheusMetrics | None") -> None:
        self._export = export
        self._page = page

    def shutdown(self) -> None:
        disable_tracing()
        if self._page is not None:
            self._page.close()
        self._export.shutdown()


def log_to_stderr() -> AbstractContextManager[None]:
    """Return a block in which everything is logged as JSON lines, if ACC_LOG_FORMAT says so."""
    if not has_json_logs():
        return nullcontext()
    from acc.adapters.system.logs import log_everything_to

    return log_everything_to(sys.stderr)
