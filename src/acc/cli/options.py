"""Options that several commands have: logs, spans, metrics, models and TLS of callers."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from acc.domain.errors import InvalidInput, RemoteFailed
from acc.domain.value_objects.credentials import ClientTls

VerboseOption = Annotated[
    bool,
    Parameter(
        name=("--verbose", "-v"),
        help="Log runs, and requests of servers, to stderr as JSON lines with trace_id, without "
        "message content.",
        negative=(),
        show_default=False,
    ),
]

AllowEmbeddedOption = Annotated[
    bool,
    Parameter(
        help="Accept agents without model=: the embedded model answers for them. It follows fixed "
        "rules and is not a language model.",
        negative=(),
    ),
]

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


@Parameter(name="*", group="TLS", show_default=False)
@dataclass(frozen=True, kw_only=True)
class TlsOptions:
    """Files for the connection to a server."""

    tls_cert: Annotated[
        Path | None,
        Parameter(help="A client certificate (PEM), for servers that identify callers by it."),
    ] = None
    tls_key: Annotated[
        Path | None,
        Parameter(
            help="The private key (PEM) of the client certificate, if it is in another file."
        ),
    ] = None
    tls_ca: Annotated[
        Path | None, Parameter(help="CA certificates (PEM) of the server, if they are not public.")
    ] = None

    def to_client_tls(self) -> ClientTls | None:
        """Return the files, None if there are none; InvalidInput for a key alone."""
        if self.tls_key is not None and self.tls_cert is None:
            raise InvalidInput("--tls-key requires the certificate: --tls-cert FILE")
        if self.tls_cert is None and self.tls_ca is None:
            return None
        return ClientTls(cert=self.tls_cert, key=self.tls_key, ca=self.tls_ca)


NO_TLS = TlsOptions()


def with_tls_advice(error: RemoteFailed) -> RemoteFailed:
    """Return an error that says what to do if the certificate of the server is not trusted."""
    if "CERTIFICATE_VERIFY_FAILED" not in str(error):
        return error
    return RemoteFailed(
        f"{error}; pass the CA of the server with --tls-ca FILE, or use a certificate of a public "
        "CA",
        remote_code=error.remote_code,
        retryable=error.retryable,
    )
