"""Options of commands that export spans and metrics."""

from typing import Annotated

from cyclopts import Parameter

OtelOption = Annotated[
    bool,
    Parameter(
        help="Export spans and metrics with OpenTelemetry over OTLP/HTTP. The variables "
        "OTEL_EXPORTER_OTLP_ENDPOINT and others configure it, and also enable it.",
        negative=(),
        show_default=False,
    ),
]

MetricsOption = Annotated[
    bool,
    Parameter(
        help="Publish metrics for Prometheus at /metrics, for callers who may read tasks. Requires "
        "the extra otel.",
        negative=(),
        show_default=False,
    ),
]
