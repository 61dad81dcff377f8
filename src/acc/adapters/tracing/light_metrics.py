"""Histograms of commands, at a fraction of the CPU time of the SDK's; see docs/adr/0057.

Readers of the SDK export them together with its own metrics. They are cumulative and have explicit
buckets, as the specification sets by default.
"""

from bisect import bisect_left
from collections.abc import Sequence
from threading import Lock
from time import time_ns
from typing import Any

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExporter,
    MetricsData,
    PeriodicExportingMetricReader,
    ResourceMetrics,
    ScopeMetrics,
)
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client import CollectorRegistry

from acc.ports.outbound.tracing_ports import Attributes

#: Further sets of labels of a histogram are counted together, as the SDK does it.
MAX_LABEL_SETS = 2000
_OVERFLOW: Attributes = {"otel.metric.overflow": True}


class _Point:
    """The values with one set of labels."""

    __slots__ = ("attributes", "counts", "largest", "smallest", "total")

    def __init__(self, attributes: Attributes, buckets: int) -> None:
        self.attributes = dict(attributes)
        self.counts = [0] * buckets
        self.total = 0.0
        self.smallest, self.largest = float("inf"), float("-inf")


class LightHistogram:
    """Counts values in buckets; several threads may record."""

    __slots__ = ("_bounds", "_lock", "_name", "_points", "_started", "_unit")

    def __init__(self, name: str, unit: str, bounds: Sequence[float]) -> None:
        self._name = name
        self._unit = unit
        self._bounds = tuple(bounds)
        self._lock = Lock()
        self._points: dict[frozenset[Any], _Point] = {}
        self._started = time_ns()

    def record(self, amount: float, attributes: Attributes) -> None:
        """Add a value."""
        key = frozenset(attributes.items())
        with self._lock:
            point = self._points.get(key)
            if point is None:
                point = self._new_point(key, attributes)
            point.counts[bisect_left(self._bounds, amount)] += 1
            point.total += amount
            if amount < point.smallest:
                point.smallest = amount
            if amount > point.largest:
                point.largest = amount

    def _new_point(self, key: frozenset[Any], attributes: Attributes) -> _Point:
        if len(self._points) >= MAX_LABEL_SETS:
            key, attributes = frozenset(_OVERFLOW.items()), _OVERFLOW
        return self._points.setdefault(key, _Point(attributes, len(self._bounds) + 1))

    def collect(self) -> Metric:
        """Return all values until now."""
        now = time_ns()
        with self._lock:
            points = [
                HistogramDataPoint(
                    attributes=point.attributes,
                    start_time_unix_nano=self._started,
                    time_unix_nano=now,
                    count=sum(point.counts),
                    sum=point.total,
                    bucket_counts=tuple(point.counts),
                    explicit_bounds=self._bounds,
                    min=point.smallest,
                    max=point.largest,
                )
                for point in self._points.values()
            ]
        data = Histogram(points, AggregationTemporality.CUMULATIVE)
        return Metric(self._name, "", self._unit, data)


class LightHistograms:
    """The histograms of one meter."""

    def __init__(self, name: str, version: str) -> None:
        self._scope = InstrumentationScope(name, version)
        self._histograms: list[LightHistogram] = []

    def create(self, name: str, unit: str, bounds: Sequence[float]) -> LightHistogram:
        """Return a new histogram."""
        histogram = LightHistogram(name, unit, bounds)
        self._histograms.append(histogram)
        return histogram

    def add_to(self, data: MetricsData) -> MetricsData:
        """Return collected metrics with these histograms, in the scope of the meter."""
        own = [histogram.collect() for histogram in self._histograms]
        if not own:
            return data
        (found,) = data.resource_metrics  # a provider has one resource
        scopes = list(found.scope_metrics)
        others = [one for one in scopes if one.scope != self._scope]
        known = [metric for one in scopes if one.scope == self._scope for metric in one.metrics]
        scopes = [ScopeMetrics(self._scope, [*known, *own], ""), *others]
        return MetricsData([ResourceMetrics(found.resource, scopes, found.schema_url)])


class LightPeriodicReader(PeriodicExportingMetricReader):
    """Exports histograms periodically with the metrics of the SDK."""

    def __init__(self, exporter: MetricExporter, histograms: LightHistograms) -> None:
        self._histograms = histograms
        super().__init__(exporter)

    def _receive_metrics(
        self, metrics_data: MetricsData, timeout_millis: float = 10_000, **options: Any
    ) -> None:
        data = self._histograms.add_to(metrics_data)
        super()._receive_metrics(data, timeout_millis, **options)


class LightPrometheusReader(PrometheusMetricReader):
    """Publishes histograms with the metrics of the SDK."""

    def __init__(self, registry: CollectorRegistry, histograms: LightHistograms) -> None:
        self._histograms = histograms
        super().__init__(registry=registry, scope_info_enabled=False)

    def _receive_metrics(
        self, metrics_data: MetricsData, timeout_millis: float = 10_000, **options: Any
    ) -> None:
        data = self._histograms.add_to(metrics_data)
        super()._receive_metrics(data, timeout_millis, **options)
