"""Metrics of a server for Prometheus: queues, leases, notifications, refusals, tools, models."""

import asyncio
from collections.abc import Iterator
from socket import socket

import httpx2
import pytest
from http_app import served
from prometheus_client.parser import text_string_to_metric_families
from server_harness import CommandAgent, ServerHarness, allow_any_url, push_config, send, wait_until

from acc import Agent, Runner, ToolCall, tool
from acc.a2a import RateLimiter, StaticTokens, TokenEntry, create_app, token_hash
from acc.application.a2a.webhook_retries import PushDelivery
from acc.bootstrap.tracing import current_metrics_page, current_tracer, start_tracing
from acc.domain.errors import InvalidInput, RemoteFailed
from acc.domain.value_objects.task import Task
from acc.ports.outbound.storage_ports import Delivery
from acc.testing import ScriptedModel

TOKENS = [
    TokenEntry(sha256=token_hash("acc_ann"), caller="ann"),
    TokenEntry(sha256=token_hash("acc_bob"), caller="bob", permissions=["agent.invoke"]),
]


@tool
def broken(city: str) -> str:
    """Fail."""
    raise ValueError(city)


def failing_agent() -> Agent:
    call = ToolCall(id="c1", name="broken", arguments={"city": "大阪"})
    return Agent(name="desk", model=ScriptedModel(call, "失敗しました。"), tools=[broken])


@pytest.fixture
def metrics_page() -> Iterator[None]:
    tracing = start_tracing(metrics_page=True, service_name="desk")
    yield
    tracing.shutdown()


def samples(text: str) -> dict[str, float]:
    """Return the values of a page by name and labels; also checks its format."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f"{key}={value}" for key, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}"] = sample.value
    return found


def current_samples() -> dict[str, float]:
    page = current_metrics_page()
    assert page is not None
    return samples(page.read("")[0].decode())


@pytest.mark.usefixtures("metrics_page")
async def test_metrics_are_published_to_callers_that_may_read() -> None:
    app = create_app(failing_agent(), verifier=StaticTokens(TOKENS))
    async with served(app) as client:
        assert (await client.get("/metrics")).status_code == 401
        assert (await client.get("/metrics", "acc_bob")).status_code == 403
        assert (await client.send("調べて", "acc_ann")).status_code == 200
        response = await client.get("/metrics", "acc_ann")
    assert response.headers["content-type"].startswith("text/plain; version=")
    found = samples(response.text)
    assert found["acc_a2a_refusals_total{error_type=unauthenticated}"] == 1
    assert found["acc_a2a_refusals_total{error_type=insufficient_scope}"] == 1
    errors = "acc_tool_errors_total{error_type=tool_error,gen_ai_tool_name=broken}"
    assert found[errors] == 1
    assert found["acc_task_running{}"] == 0
    assert found["acc_session_leases{}"] == 0
    assert found["acc_run_duration_seconds_count{gen_ai_agent_name=desk}"] == 1
    assert "大阪" not in response.text


@pytest.mark.usefixtures("metrics_page")
async def test_monitoring_is_not_rate_limited() -> None:
    limiter = RateLimiter(["2/hour"])
    app = create_app(CommandAgent(name="desk"), verifier=StaticTokens(TOKENS), limiter=limiter)
    async with served(app) as client:
        for _ in range(3):
            for path in ("/metrics", "/health", "/health/live", "/health/ready"):
                assert (await client.get(path, "acc_ann")).status_code == 200, path
        statuses = [(await client.send(str(n), "acc_ann")).status_code for n in range(3)]
        assert statuses == [200, 200, 429]
        assert (await client.get("/metrics", "acc_ann")).status_code == 200


async def test_metrics_are_not_published_without_the_option() -> None:
    async with served(create_app(CommandAgent(name="desk"))) as client:
        assert (await client.get("/metrics")).status_code == 404


@pytest.mark.usefixtures("metrics_page")
async def test_incoming_context_is_passed_on_if_only_metrics_are_published() -> None:
    """A span that is not exported must not become the parent of others."""
    app = create_app(CommandAgent(name="desk"))
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    async with served(app) as client:
        with_parent = await client.send("hello", headers={"traceparent": parent})
        without = await client.send("hello again")
    assert with_parent.headers["traceresponse"] == parent
    assert "traceresponse" not in without.headers


@pytest.mark.usefixtures("metrics_page")
async def test_running_tasks_are_reported_while_they_run() -> None:
    agent = CommandAgent(name="desk")
    message = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "wait"}]}
    params = {"message": message, "configuration": {"returnImmediately": True}}
    async with served(create_app(agent)) as client:
        assert (await client.rpc("SendMessage", params)).status_code == 200
        await wait_until(lambda: agent.log == ["wait"])
        assert current_samples()["acc_task_running{}"] == 1
        assert current_samples()["acc_session_leases{}"] == 1
        agent.gate.set()
        await wait_until(lambda: current_samples()["acc_task_running{}"] == 0)
    assert current_samples()["acc_session_leases{}"] == 0


@pytest.mark.usefixtures("metrics_page")
async def test_runs_that_wait_for_a_session_are_reported() -> None:
    agent = CommandAgent(name="desk")
    runner = Runner(agent)
    async with asyncio.TaskGroup() as group:
        group.create_task(runner.run("wait", session_id="s1"))
        await wait_until(lambda: agent.log == ["wait"])
        group.create_task(runner.run("hello", session_id="s1"))
        await wait_until(lambda: current_samples()["acc_session_waiting{}"] == 1)
        agent.gate.set()
    found = current_samples()
    assert found["acc_session_waiting{}"] == 0
    assert found["acc_session_wait_seconds_count{}"] == 1


class FlakyReceiver:
    """Rejects the first notifications."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.accepted = 0

    async def deliver(self, delivery: Delivery, task: Task) -> None:
        if self.failures:
            self.failures -= 1
            raise RemoteFailed("no answer")
        self.accepted += 1


@pytest.mark.usefixtures("metrics_page")
async def test_attempts_of_notifications_are_counted_by_outcome(harness: ServerHarness) -> None:
    receiver = FlakyReceiver(3)
    delivery = PushDelivery(
        tasks=harness.tasks,
        sender=receiver,
        poll_interval=0.01,
        max_attempts=3,
        delay=lambda _: 0.0,
        tracer=current_tracer(),
    )
    serve = harness.server(CommandAgent(name="desk"), check_url=allow_any_url)
    async with serve.open(delivery):
        await send(serve, "count 1", push=push_config(id="p1"))
        await wait_until(lambda: receiver.accepted == 3)
        await wait_until(
            lambda: (
                current_samples().get("acc_push_attempts_total{acc_push_outcome=delivered}") == 3
            )
        )
    found = current_samples()
    assert found["acc_push_attempts_total{acc_push_outcome=retry}"] == 2
    assert found["acc_push_attempts_total{acc_push_outcome=dropped}"] == 1


class BlockedReceiver:
    """Accepts notifications when the test releases it."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()

    async def deliver(self, delivery: Delivery, task: Task) -> None:
        await self.may_answer.wait()


@pytest.mark.usefixtures("metrics_page")
async def test_queued_and_sent_notifications_are_reported(harness: ServerHarness) -> None:
    receiver = BlockedReceiver()
    delivery = PushDelivery(
        tasks=harness.tasks, sender=receiver, poll_interval=0.01, tracer=current_tracer()
    )
    serve = harness.server(CommandAgent(name="desk"), check_url=allow_any_url)
    async with serve.open():
        await send(serve, "count 1", push=push_config(id="p1"))
    async with asyncio.TaskGroup() as group:  # the queue is counted when the delivery starts
        delivering = group.create_task(delivery.run())
        await wait_until(lambda: current_samples()["acc_push_in_flight{}"] == 1)
        await wait_until(lambda: current_samples()["acc_push_queue{}"] >= 1)
        receiver.may_answer.set()
        await wait_until(lambda: current_samples()["acc_push_in_flight{}"] == 0)
        delivering.cancel()


def test_unsupported_exporter_of_metrics_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "zipkin")
    with pytest.raises(InvalidInput, match="use otlp or prometheus or none"):
        start_tracing(metrics_page=True)


def test_metrics_of_any_command_are_served_at_the_standard_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "prometheus")
    monkeypatch.setenv("OTEL_EXPORTER_PROMETHEUS_HOST", "127.0.0.1")
    monkeypatch.setenv("OTEL_EXPORTER_PROMETHEUS_PORT", str(port))
    tracing = start_tracing(service_name="desk")
    try:
        Runner(failing_agent()).run_sync("調べて")
        page = httpx2.get(f"http://127.0.0.1:{port}/metrics").text
        assert samples(page)["acc_run_duration_seconds_count{gen_ai_agent_name=desk}"] == 1
        assert current_metrics_page() is None
        with pytest.raises(InvalidInput, match="OTEL_EXPORTER_PROMETHEUS_PORT"):
            start_tracing()
    finally:
        tracing.shutdown()
