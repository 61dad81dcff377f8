"""A receiver of spans and metrics over OTLP/HTTP, on a local port."""

import gzip
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

_TIMEOUT_SECONDS = 30.0


class ReceivedSpan:
    """A span as it was received, with plain values."""

    def __init__(self, span: Any, service: str) -> None:
        self.name: str = span.name
        self.service = service
        self.kind: int = span.kind
        self.trace_id: str = span.trace_id.hex()
        self.span_id: str = span.span_id.hex()
        self.parent_id: str = span.parent_span_id.hex()
        self.links: list[tuple[str, str]] = [
            (link.trace_id.hex(), link.span_id.hex()) for link in span.links
        ]
        self.attributes = _plain(span.attributes)
        self.events = {event.name: _plain(event.attributes) for event in span.events}
        self.is_error: bool = span.status.code == 2


def _plain(attributes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for item in attributes:
        field = item.value.WhichOneof("value")
        value: Any = getattr(item.value, field) if field else None
        if field == "array_value":
            value = [entry.string_value for entry in value.values]
        values[item.key] = value
    return values


class OtlpReceiver:
    """Collects what is exported to it; a context manager."""

    def __init__(self) -> None:
        self._spans: list[ReceivedSpan] = []
        self._metrics: dict[str, list[Any]] = {}
        self._lock = threading.Lock()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                receiver._receive(self.path, body)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> "OtlpReceiver":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _receive(self, path: str, body: bytes) -> None:
        with self._lock:
            if path == "/v1/traces":
                for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                    service = _plain(resource.resource.attributes)["service.name"]
                    for scope in resource.scope_spans:
                        self._spans += [ReceivedSpan(span, service) for span in scope.spans]
            else:
                for group in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                    for metrics in group.scope_metrics:
                        for metric in metrics.metrics:
                            kind = metric.WhichOneof("data")
                            assert kind is not None
                            data = getattr(metric, kind)
                            points = [
                                (_plain(point.attributes), point) for point in data.data_points
                            ]
                            self._metrics[metric.name] = points

    def spans(self) -> list[ReceivedSpan]:
        with self._lock:
            return list(self._spans)

    def metrics(self) -> dict[str, list[Any]]:
        with self._lock:
            return dict(self._metrics)

    def wait_for(self, *names: str) -> list[ReceivedSpan]:
        """Return the received spans as soon as those with the names are among them."""
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        while True:
            spans = self.spans()
            missing = set(names) - {span.name for span in spans}
            if not missing:
                return spans
            assert time.monotonic() < deadline, f"spans not received: {sorted(missing)}"
            time.sleep(0.05)


def orphans(spans: list[ReceivedSpan]) -> list[str]:
    """Return the names of spans whose parent was not received."""
    known = {span.span_id for span in spans}
    return [span.name for span in spans if span.parent_id and span.parent_id not in known]
