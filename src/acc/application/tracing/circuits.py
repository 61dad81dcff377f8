"""Log and metric of circuit breakers."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime

from acc.application.tracing.conventions import METRIC_CIRCUIT_CHANGES
from acc.domain.circuit_breaker import CircuitStatus
from acc.ports.outbound.tracing_ports import TracerPort

log = logging.getLogger("acc.circuit")


def report_circuits(
    current_tracer: Callable[[], TracerPort | None],
) -> Callable[[CircuitStatus], None]:
    """Return a function that logs and counts when a circuit opens or closes."""

    def report(status: CircuitStatus) -> None:
        if status.next_attempt is None:
            log.warning("the circuit of %s has closed: it responds again", status.name)
        else:
            attempt = datetime.fromtimestamp(status.next_attempt, UTC).isoformat(timespec="seconds")
            log.warning(
                "the circuit of %s has opened after %d failures; next attempt at %s",
                status.name,
                status.failures,
                attempt,
            )
        tracer = current_tracer()
        if tracer is not None:
            tracer.count(
                METRIC_CIRCUIT_CHANGES,
                {"acc.circuit.name": status.name, "acc.circuit.state": status.state.value},
            )

    return report
