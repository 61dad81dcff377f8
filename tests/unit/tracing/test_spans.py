"""Spans of runs in this process, exported to memory by the SDK."""

import logging
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from telemetry import Telemetry

from acc import (
    Agent,
    CallContext,
    Grant,
    PlanFirst,
    RunConfig,
    Runner,
    SequentialAgent,
    ToolContext,
    approve,
    disable_tracing,
    enable_tracing,
    tool,
)
from acc.application.use_cases.live_multi_agent_evaluation import LiveMultiAgentEvaluationUseCase
from acc.bootstrap.tracing import current_tracer
from acc.domain.value_objects.content import ToolCall, Usage
from acc.domain.value_objects.live_evaluation import AgentTurnResponse
from acc.ports.outbound.model_ports import ModelResponse
from acc.testing import ScriptedAgent, ScriptedJudge, ScriptedModel, queries

SECRET = "sk-live-0123456789abcdef0123456789abcdef"


@tool
def weather(city: str) -> str:
    """Return the weather."""
    return f"sunny in {city}"


@tool(confirm=True)
def refund(amount: int) -> str:
    """Refund an amount."""
    return f"refunded {amount}"


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(id="c1", name=name, arguments=arguments)


def agent(*responses: Any, tools: Any = (), name: str = "helper", **options: Any) -> Agent:
    return Agent(name=name, model=ScriptedModel(*responses), tools=list(tools), **options)


def parent_name(spans: dict[str, ReadableSpan], name: str) -> str:
    parent = spans[name].parent
    if parent is None:
        return ""
    ids = {span.context.span_id: span.name for span in spans.values() if span.context}
    return ids[parent.span_id]


async def test_tool_turn_has_spans_of_agent_model_calls_and_tool(telemetry: Telemetry) -> None:
    usage = Usage(input_tokens=11, output_tokens=3)
    runner = Runner(
        agent(
            call("weather", city="大阪"),
            ModelResponse(text="晴れです", usage=usage),
            tools=[weather],
        )
    )

    result = await runner.run("大阪の天気は?", session_id="s1")

    assert telemetry.names() == [
        "chat ScriptedModel",
        "execute_tool weather",
        "chat ScriptedModel",
        "invoke_agent helper",
    ]
    spans = telemetry.spans()
    root = spans["invoke_agent helper"]
    assert root.parent is None
    assert parent_name(spans, "execute_tool weather") == "invoke_agent helper"
    assert parent_name(spans, "chat ScriptedModel") == "invoke_agent helper"
    attributes = dict(root.attributes or {})
    assert attributes["gen_ai.operation.name"] == "invoke_agent"
    assert attributes["gen_ai.conversation.id"] == "s1"
    assert attributes["acc.run.id"] == result.run_id
    assert attributes["openinference.span.kind"] == "AGENT"
    chat = dict(spans["chat ScriptedModel"].attributes or {})
    assert (chat["gen_ai.usage.input_tokens"], chat["gen_ai.usage.output_tokens"]) == (11, 3)
    assert chat["openinference.span.kind"] == "LLM"
    assert root.context is not None
    assert result.events[-1].trace_id == f"{root.context.trace_id:032x}"


async def test_spans_contain_no_message_content_by_default(telemetry: Telemetry) -> None:
    runner = Runner(agent(call("weather", city="Lyon"), "It is sunny.", tools=[weather]))
    await runner.run("Is it raining in Lyon?")
    exported = " ".join(span.to_json() for span in telemetry.spans().values())
    assert "Lyon" not in exported
    assert "sunny" not in exported


async def test_message_content_is_captured_without_secrets_if_allowed(
    telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "span_only")
    enable_tracing(tracer_provider=telemetry.provider, meter_provider=telemetry.meters)
    runner = Runner(agent(call("weather", city="京都"), "晴れです。", tools=[weather]))
    await runner.run(f"京都の天気は? api_key={SECRET}")
    spans = telemetry.spans()
    chat = dict(spans["chat ScriptedModel"].attributes or {})
    assert "京都の天気は" in str(chat["gen_ai.input.messages"])
    assert "晴れです。" in str(chat["gen_ai.output.messages"])
    arguments = dict(spans["execute_tool weather"].attributes or {})["gen_ai.tool.call.arguments"]
    assert arguments == '{"city":"京都"}'
    assert SECRET not in " ".join(span.to_json() for span in spans.values())


async def test_captured_content_has_nothing_that_the_caller_may_not_read(
    telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    @tool
    def look(ctx: ToolContext) -> str:
        """Return the state."""
        return repr(dict(ctx.state))

    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "span_only")
    enable_tracing(tracer_provider=telemetry.provider, meter_provider=telemetry.meters)
    desk = agent(
        call("look"),
        "done",
        tools=[look],
        instruction="{summary?} {card_number?}",
        callers={"user://*": Grant(read=("*", "!card_*"))},
    )
    runner = Runner(desk)
    await runner.update_state({"summary": "all is well", "card_number": "4111-private"})
    await runner.run("hello")
    exported = " ".join(span.to_json() for span in telemetry.finished())
    assert "all is well" in exported
    assert "4111-private" not in exported


async def test_failed_tool_has_an_error_and_is_counted(telemetry: Telemetry) -> None:
    @tool
    def broken() -> str:
        """Fail."""
        raise RuntimeError("no")

    runner = Runner(agent(call("broken"), "It failed.", tools=[broken]))
    await runner.run("try")
    span = telemetry.spans()["execute_tool broken"]
    assert not span.status.is_ok
    assert dict(span.attributes or {})["error.type"] == "tool_error"
    (point,) = telemetry.metrics()["acc.tool.errors"]
    assert point.value == 1
    assert point.attributes["gen_ai.tool.name"] == "broken"


async def test_failed_run_has_the_error_code(telemetry: Telemetry) -> None:
    runner = Runner(agent(RuntimeError("down")))
    with pytest.raises(Exception, match="down"):
        await runner.run("hello")
    root = telemetry.spans()["invoke_agent helper"]
    assert dict(root.attributes or {})["error.type"] == "model_failed"
    assert dict(root.attributes or {})["acc.run.status"] == "failed"


async def test_workflow_spans_contain_those_of_its_agents(telemetry: Telemetry) -> None:
    tree = SequentialAgent(name="flow", sub_agents=[agent("a", name="one"), agent("b", name="two")])
    await Runner(tree).run("go")
    spans = telemetry.spans()
    assert parent_name(spans, "invoke_agent one") == "invoke_workflow flow"
    assert parent_name(spans, "invoke_agent two") == "invoke_workflow flow"


async def test_incoming_traceparent_is_the_parent(telemetry: Telemetry) -> None:
    parent = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
    context = CallContext(
        request_id="r1", trace_id="a" * 32, caller="user://x", metadata={"traceparent": parent}
    )
    await Runner(agent("ok")).run("hi", context=context)
    root = telemetry.spans()["invoke_agent helper"]
    assert root.parent is not None
    assert f"{root.parent.span_id:016x}" == "b" * 16


@pytest.mark.parametrize("parent", ["00-" + "0" * 32 + "-" + "b" * 16 + "-01", "nonsense", 5])
async def test_invalid_traceparent_is_not_a_parent(telemetry: Telemetry, parent: Any) -> None:
    context = CallContext(
        request_id="r1", trace_id="t1", caller="user://x", metadata={"traceparent": parent}
    )
    await Runner(agent("ok")).run("hi", context=context)
    assert telemetry.spans()["invoke_agent helper"].parent is None


async def test_current_span_of_the_application_is_the_parent(telemetry: Telemetry) -> None:
    tracer = telemetry.provider.get_tracer("app")
    with tracer.start_as_current_span("request"):
        await Runner(agent("ok")).run("hi")
    assert parent_name(telemetry.spans(), "invoke_agent helper") == "request"


async def test_tool_sees_its_span_as_the_current_one(telemetry: Telemetry) -> None:
    seen: list[int] = []

    @tool
    def look() -> str:
        """Look at the current span."""
        seen.append(trace.get_current_span().get_span_context().span_id)
        return "ok"

    await Runner(agent(call("look"), "done", tools=[look])).run("go")
    context = telemetry.spans()["execute_tool look"].context
    assert context is not None
    assert seen == [context.span_id]
    assert not trace.get_current_span().get_span_context().is_valid


async def test_resumed_run_links_to_the_original_and_notes_the_approval(
    telemetry: Telemetry,
) -> None:
    runner = Runner(agent(call("refund", amount=5), "Done.", tools=[refund]))
    paused = await runner.run("refund 5")
    first = telemetry.spans()["invoke_agent helper"]
    assert first.status.is_unset
    assert dict(first.attributes or {})["acc.run.status"] == "input_required"

    await runner.resume(approve(paused.requests[0]))

    second = telemetry.spans()["invoke_agent helper"]
    assert second is not first
    assert second.parent is None
    assert first.context is not None
    assert [link.context.span_id for link in second.links] == [first.context.span_id]
    (event,) = [event for event in second.events if event.name == "acc.approval"]
    noted = dict(event.attributes or {})
    assert noted["acc.approval.decision"] == "approve"
    assert noted["gen_ai.tool.name"] == "refund"
    assert isinstance(noted["acc.approval.wait_seconds"], float)
    assert telemetry.metrics()["acc.approval.wait"][0].count == 1


async def test_memory_operations_have_sizes(telemetry: Telemetry) -> None:
    runner = Runner(agent("ok", "ok", memory="acc"))
    await runner.run("Never restart db-1. 絶対に再起動しないでください。")
    await runner.run("What now?")
    spans = telemetry.spans()
    attributes = dict(spans["search_memory helper"].attributes or {})
    assert int(str(attributes["acc.memory.tokens.after"])) > 0
    assert "acc.memory.tokens.before" in attributes
    assert parent_name(spans, "upsert_memory helper") == "invoke_agent helper"
    upserted = dict(spans["upsert_memory helper"].attributes or {})
    for name in ("acc.memory.tokens.before", "acc.memory.tokens.after"):
        assert upserted[name] == attributes[name]


async def test_size_before_is_that_of_the_turn_before_also_in_another_process(
    telemetry: Telemetry, tmp_path: Path
) -> None:
    sizes: list[tuple[Any, Any]] = []
    for text in ("Never restart db-1.", "The lead is Alice.", "What about db-1?"):
        runner = Runner(agent("ok", memory="acc"), store=tmp_path / "acc.db")
        await runner.run(text)
        await runner.aclose()
        attributes = telemetry.spans()["search_memory helper"].attributes or {}
        sizes.append(
            (attributes["acc.memory.tokens.before"], attributes["acc.memory.tokens.after"])
        )
    assert sizes[0][0] == 0
    assert [before for before, _ in sizes[1:]] == [after for _, after in sizes[:-1]]
    assert sizes[1][0] > 0


async def test_streamed_response_has_the_time_to_first_chunk(telemetry: Telemetry) -> None:
    runner = Runner(agent("a long answer"))
    async for _ in runner.stream("hi"):
        pass
    chat = dict(telemetry.spans()["chat ScriptedModel"].attributes or {})
    assert float(str(chat["gen_ai.response.time_to_first_chunk"])) > 0
    assert telemetry.metrics()["gen_ai.client.operation.time_to_first_chunk"]


async def test_interrupted_streams_detach_no_context(
    telemetry: Telemetry, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for events in range(1, 6):
        runner = Runner(agent(call("weather", city="Rome"), "sunny", tools=[weather]))
        stream = runner.stream("weather?")
        for _ in range(events):
            await anext(stream)
        await stream.aclose()
    assert "Failed to detach context" not in caplog.text
    assert telemetry.names().count("invoke_agent helper") == 5


async def test_metrics_have_tokens_and_durations(telemetry: Telemetry) -> None:
    usage = Usage(input_tokens=7, output_tokens=2)
    await Runner(agent(ModelResponse(text="ok", usage=usage))).run("hi")
    metrics = telemetry.metrics()
    by_type = {
        point.attributes["gen_ai.token.type"]: point.sum
        for point in metrics["gen_ai.client.token.usage"]
    }
    assert by_type == {"input": 7, "output": 2}
    assert metrics["gen_ai.client.operation.duration"][0].count == 1
    assert metrics["acc.run.duration"][0].count == 1


async def test_nothing_is_traced_unless_it_is_enabled() -> None:
    exported = Telemetry()
    enable_tracing(tracer_provider=exported.provider, meter_provider=exported.meters)
    disable_tracing()
    result = await Runner(agent("ok"), config=RunConfig()).run("hi")
    assert exported.names() == []
    assert "traceparent" not in result.events[0].detail


# Planner


async def test_plan_of_an_agent_is_a_plan_span(telemetry: Telemetry) -> None:
    plan = call("write_plan", steps=["天気を調べる", "答える"])
    runner = Runner(
        agent(plan, call("weather", city="大阪"), "晴れです", tools=[weather], planner=PlanFirst())
    )
    await runner.run("大阪の天気は?")
    spans = telemetry.spans()
    assert "execute_tool write_plan" not in spans
    attributes = dict(spans["plan helper"].attributes or {})
    assert attributes["gen_ai.operation.name"] == "plan"
    assert attributes["acc.plan.steps"] == 2
    assert parent_name(spans, "plan helper") == "invoke_agent helper"


# Evaluations


class FailingJudge(ScriptedJudge):
    """Fails in every turn."""

    async def evaluate_turn(self, query: Any, memory: Any, responses: Any) -> Any:
        raise RuntimeError("the judge is not available")


def evaluation(judge: Any, agents: Any) -> LiveMultiAgentEvaluationUseCase:
    return LiveMultiAgentEvaluationUseCase(agents=agents, judge=judge, tracer=current_tracer())


def results(span: ReadableSpan) -> dict[str, Any]:
    return {
        str((event.attributes or {})["gen_ai.evaluation.name"]): event.attributes
        for event in span.events
        if event.name == "gen_ai.evaluation.result"
    }


async def test_scores_of_a_turn_are_on_the_judged_span(telemetry: Telemetry) -> None:
    agents = [ScriptedAgent("acc", ["a1", "a2"]), ScriptedAgent("full", ["b1", "b2"])]
    await evaluation(ScriptedJudge(), agents).run_episode(queries("one", "two"))
    names = telemetry.names()
    assert names.count("invoke_agent acc") == names.count("invoke_agent full") == 2
    last = telemetry.spans()["invoke_agent acc"]
    assert dict(last.attributes or {})["acc.evaluation.turn"] == 2
    scores = results(last)
    assert scores["relevance"]["gen_ai.evaluation.score.value"] == 8.0
    assert {"hallucination", "drift", "outcome"} < set(scores)
    assert not any("gen_ai.evaluation.explanation" in score for score in scores.values())


class RunningAgent:
    """Answers with a runner, as the agents of an evaluation do."""

    agent_name = "helper"

    async def run_turn(self, query: Any, memory: Any) -> AgentTurnResponse:
        result = await Runner(agent("fine")).run(query.query)
        return AgentTurnResponse(agent_name=self.agent_name, response_text=result.text)


async def test_run_of_an_evaluated_agent_is_a_child_of_the_judged_span(
    telemetry: Telemetry, caplog: pytest.LogCaptureFixture
) -> None:
    await evaluation(ScriptedJudge(), [RunningAgent()]).run_episode(queries("one"))
    run, judged = [span for span in telemetry.finished() if span.name == "invoke_agent helper"]
    assert run.parent is not None
    assert judged.context is not None
    assert run.parent.span_id == judged.context.span_id
    assert judged.parent is None
    assert results(judged)
    assert not caplog.records


async def test_span_of_an_unscored_turn_has_the_class_of_the_error(telemetry: Telemetry) -> None:
    await evaluation(FailingJudge(), [ScriptedAgent("acc", ["a1"])]).run_episode(queries("one"))
    span = telemetry.spans()["invoke_agent acc"]
    assert dict(span.attributes or {})["acc.evaluation.status"] == "unscored"
    assert [dict(event.attributes or {}) for event in span.events] == [
        {"error.type": "judge_failed"}
    ]
