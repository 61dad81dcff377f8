"""Metrics in the formats of Prometheus, with the exporter of OpenTelemetry."""

from wsgiref.simple_server import WSGIServer

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.exposition import choose_encoder

from acc.adapters.tracing.light_metrics import LightHistograms, LightPrometheusReader
from acc.domain.errors import InvalidInput


class PrometheusMetrics:
    """The metrics of this process, for a page or for a server of their own.

    The reader must be added to a meter provider.
    """

    def __init__(self, histograms: LightHistograms | None = None) -> None:
        # Not the global registry, so that metrics of libraries are not mixed in.
        self._registry = CollectorRegistry()
        self._server: WSGIServer | None = None
        self.reader = (
            PrometheusMetricReader(registry=self._registry, scope_info_enabled=False)
            if histograms is None
            else LightPrometheusReader(self._registry, histograms)
        )

    def read(self, accept: str) -> tuple[bytes, str]:
        """Return the metrics in the format that the header `Accept` asks for, and its type."""
        write, media_type = choose_encoder(accept)
        return write(self._registry), media_type

    def serve(self, host: str, port: int) -> None:
        """Serve the metrics in a background thread until they are closed."""
        try:
            self._server, _ = start_http_server(port, addr=host, registry=self._registry)
        except OSError as error:
            raise InvalidInput(
                f"cannot serve metrics on {host}:{port} ({error.strerror or error}); set "
                "OTEL_EXPORTER_PROMETHEUS_PORT to another port"
            ) from None

    def close(self) -> None:
        """Stop the server of the metrics, if there is one."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
