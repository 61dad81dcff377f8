"""Tracing of this process with OpenTelemetry; nothing is imported unless it is enabled."""

from typing import TYPE_CHECKING, Protocol

from acc.bootstrap.memory import version
from acc.bootstrap.settings import captures_message_content, exporter_of, has_otlp_endpoint
from acc.domain.call_options import explains_call
from acc.domain.errors import InvalidInput
from acc.ports.outbound.tracing_ports import TracerPort

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

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


def current_tracer() -> TracerPort | None:
    """Return the tracer of this process, None if tracing is not enabled."""
    return _State.tracer


@explains_call()
def enable_tracing(
    *,
    tracer_provider: "TracerProvider | None" = None,
    meter_provider: "MeterProvider | None" = None,
) -> None:
    """Trace the runs of runners and servers that are created from now on.

    The providers are those that the application has set for the process, unless others are given.
    """
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
    )


def disable_tracing() -> None:
    """Do not trace runners that are created from now on."""
    _State.tracer = None


def start_tracing(*, requested: bool = False, service_name: str = "acc") -> Tracing:
    """Export spans and metrics over OTLP/HTTP if it is requested or the environment says so.

    `OTEL_SDK_DISABLED=true` has priority. The other standard variables select exporters, endpoint,
    headers, sampler and resource.
    """
    traces, metrics = exporter_of("traces"), exporter_of("metrics")
    is_configured = requested or has_otlp_endpoint() or "otlp" in (traces, metrics)
    if not is_configured or exporter_of("sdk") == "none":
        return _NoTracing()
    for signal, name in (("TRACES", traces), ("METRICS", metrics)):
        if name not in ("", "otlp", "none"):
            raise InvalidInput(f"OTEL_{signal}_EXPORTER={name} is not supported; use otlp or none")
    try:
        from acc.adapters.tracing.otlp import OtlpExport
    except ImportError as error:
        raise InvalidInput(f"tracing needs {error.name}; {_INSTALL}") from None
    export = OtlpExport(
        service_name=service_name, traces=traces != "none", metrics=metrics != "none"
    )
    enable_tracing(tracer_provider=export.tracer_provider, meter_provider=export.meter_provider)
    return _Export(export)


class _Export:
    def __init__(self, export: Tracing) -> None:
        self._export = export

    def shutdown(self) -> None:
        disable_tracing()
        self._export.shutdown()
