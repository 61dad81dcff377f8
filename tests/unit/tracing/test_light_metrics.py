"""Histograms of commands, compared with those of the SDK."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, MetricsData
from prometheus_client.parser import text_string_to_metric_families

from acc.adapters.tracing.light_metrics import MAX_LABEL_SETS, LightHistogram, LightHistograms
from acc.bootstrap.tracing import current_metrics_page, current_tracer, start_tracing

BOUNDS = (0.01, 0.1, 1.0)
VALUES = ((0.005, {"tool": "a"}), (0.01, {"tool": "a"}), (2.5, {"tool": "a"}), (0.5, {"tool": "b"}))


def points(data: MetricsData | None, name: str) -> list[Any]:
    """Return the points of a metric without their times."""
    assert data is not None
    found = [
        metric
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if metric.name == name
    ]
    (metric,) = found
    data_points: Any = metric.data
    shown: list[Any] = [metric.unit, data_points.aggregation_temporality]
    for point in data_points.data_points:
        counts, bounds = tuple(point.bucket_counts), tuple(point.explicit_bounds)
        shown.append(
            (dict(point.attributes), point.count, point.sum, counts, bounds, point.min, point.max)
        )
    return shown


@pytest.fixture
def reader() -> Iterator[InMemoryMetricReader]:
    reader = InMemoryMetricReader()
    meters = MeterProvider(metric_readers=[reader], shutdown_on_exit=False)
    meter = meters.get_meter("acc", "1.0")
    histogram = meter.create_histogram(
        "wait", unit="s", explicit_bucket_boundaries_advisory=list(BOUNDS)
    )
    for value, labels in VALUES:
        histogram.record(value, labels)
    yield reader
    meters.shutdown()


def test_points_equal_those_of_the_sdk(reader: InMemoryMetricReader) -> None:
    histograms = LightHistograms("acc", "1.0")
    own = histograms.create("own", "s", BOUNDS)
    for value, labels in VALUES:
        own.record(value, labels)
    collected = reader.get_metrics_data()
    assert collected is not None
    data = histograms.add_to(collected)
    assert points(data, "own") == points(data, "wait")
    (resource,) = data.resource_metrics
    assert len(resource.scope_metrics) == 1  # the scope of the meter is not repeated
    other = LightHistograms("other", "1.0")
    other.create("own", "s", BOUNDS).record(1.0, {})
    assert len(other.add_to(collected).resource_metrics[0].scope_metrics) == 2
    assert LightHistograms("acc", "1.0").add_to(collected) is collected


def test_further_sets_of_labels_are_counted_together() -> None:
    histogram = LightHistogram("own", "s", BOUNDS)
    for number in range(MAX_LABEL_SETS + 3):
        histogram.record(1.0, {"id": str(number)})
    data: Any = histogram.collect().data
    found = {str(point.attributes): point.count for point in data.data_points}
    assert len(found) == MAX_LABEL_SETS + 1
    assert found["{'otel.metric.overflow': True}"] == 3


def test_values_of_several_threads_are_all_counted() -> None:
    histogram = LightHistogram("own", "s", BOUNDS)

    def record() -> None:
        for _ in range(5_000):
            histogram.record(0.5, {"tool": "a"})

    threads = [threading.Thread(target=record) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    data: Any = histogram.collect().data
    (point,) = data.data_points
    assert (point.count, point.sum) == (20_000, 10_000.0)


@pytest.mark.parametrize("preference", ["", "delta"])
def test_page_has_the_same_histogram_with_the_sdk(
    preference: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", preference)
    tracing = start_tracing(metrics_page=True, service_name="desk")
    try:
        tracer, page = current_tracer(), current_metrics_page()
        assert tracer is not None and page is not None
        tracer.observe("acc.run.duration", 0.03, {"gen_ai.agent.name": "窓口"})
        tracer.observe("acc.run.duration", 0.5, {"gen_ai.agent.name": "窓口"})
        tracer.count("acc.tool.errors", {"error.type": "x"})
        text = page.read("")[0].decode()
    finally:
        tracing.shutdown()
    (family,) = [
        one for one in text_string_to_metric_families(text) if one.name.startswith("acc_run")
    ]
    assert family.name == "acc_run_duration_seconds"
    values = {
        (sample.name.rpartition("_")[2], sample.labels.get("le", "")): sample.value
        for sample in family.samples
    }
    assert values["count", ""] == 2
    assert values["sum", ""] == 0.53
    assert (values["bucket", "0.02"], values["bucket", "0.04"], values["bucket", "+Inf"]) == (
        0,
        1,
        2,
    )
    assert "acc_tool_errors_total" in text
