"""Grants by caller of a root agent, and its method `filter_memory`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest
from agent_support import Does, Writes

from acc import (
    Agent,
    BaseAgent,
    CallContext,
    EventKind,
    Grant,
    InvalidInput,
    InvalidTree,
    ParallelAgent,
    RunConfig,
    RunContext,
    Runner,
    SequentialAgent,
    ToolContext,
    approve,
    tool,
)
from acc.a2a import StaticTokens, TokenEntry, create_app, token_hash
from acc.contracts import IntentAgent, intent, run_agent
from acc.domain.errors import PermissionDenied, StateNotGranted
from acc.testing import ScriptedModel, call

FRAUD, AUDIT, CHECKOUT = (
    f"agent://{name}_agent" for name in ("fraud_detection", "audit", "checkout")
)
CALLERS = {
    FRAUD: Grant(read=("*", "!payment.card_*")),
    AUDIT: Grant(read=("summary.*", "metrics.*"), write=(), artifacts=(), permissions=("read",)),
    "agent://*": Grant(),
}
MEMORY = {
    "payment.card_number": "4111-private-card",
    "payment.card_holder.account": "鈴木",
    "user:payment.card_pin": "pin-9",
    "app:payment.card_key": "key-9",
    "payment.total": 9,
    "summary.day": "ok",
    "user:summary.day": "not declared",
    "metrics.count": 3,
}
CARD_KEYS = {key for key in MEMORY if "card_" in key}


def by(caller: str, permissions: Any = None) -> CallContext:
    return CallContext(request_id="r", trace_id="t", caller=caller, permissions=permissions)


async def started(agent: BaseAgent, **options: Any) -> Runner:
    runner = Runner(agent, **options)
    await runner.update_state(MEMORY)
    return runner


def keys(ctx: RunContext) -> str:
    return json.dumps(sorted(ctx.state))


@pytest.mark.parametrize(
    ("caller", "visible"),
    [
        (FRAUD, set(MEMORY) - CARD_KEYS),
        (AUDIT, {"summary.day", "metrics.count"}),
        (CHECKOUT, set(MEMORY)),
        (f"a2a:///{AUDIT}", {"summary.day", "metrics.count"}),
        (f"a2a://tenant/{AUDIT}", {"summary.day", "metrics.count"}),
        (f"ag-ui:///{FRAUD}", set(MEMORY) - CARD_KEYS),
        ("a2a://anonymous", set()),
        ("user://default", set()),
        (f"event://{AUDIT}", set()),
    ],
)
async def test_run_sees_what_the_grant_of_its_caller_allows(caller: str, visible: set[str]) -> None:
    runner = await started(Does(name="payment", do=keys, callers=CALLERS))
    result = await runner.run("hello", context=by(caller))
    assert set(json.loads(result.text)) == visible
    assert result.state == {key: MEMORY[key] for key in visible}


async def test_anonymous_caller_matches_the_general_pattern() -> None:
    callers = {AUDIT: Grant(), "*": Grant(read=("summary.*",))}
    runner = await started(Does(name="payment", do=keys, callers=callers))
    result = await runner.run("hello", context=by("a2a://anonymous"))
    assert json.loads(result.text) == ["summary.day"]


def test_payload_in_process_has_the_grant_of_its_caller() -> None:
    @intent
    def count(inputs: dict[str, Any], memory: Any) -> dict[str, Any]:
        """Count."""
        return {"keys": sorted(memory)}

    desk = IntentAgent(name="desk", intents=[count], callers={FRAUD: CALLERS[FRAUD]})
    payload = {"memory": {"payment.card_no": 1, "payment.total": 2}, "context": {"caller": FRAUD}}
    assert run_agent(desk, payload) == {"keys": ["payment.total"]}
    with pytest.raises(InvalidInput, match="cannot be set by this caller"):
        run_agent(desk, {**payload, "context": {"caller": "agent://unknown"}})


async def test_permissions_artifacts_and_writes_are_limited() -> None:
    async def look(ctx: RunContext) -> str:
        assert ctx.call.caller == AUDIT
        with pytest.raises(StateNotGranted):
            ctx.state["summary.day"] = "changed"
        with pytest.raises(StateNotGranted):
            await ctx.artifacts.save("report.txt", "text")
        return f"{ctx.call.allows('read')} {ctx.call.allows('pay')}"

    runner = Runner(Does(name="payment", do=look, callers=CALLERS))
    assert (await runner.run("hello", context=by(AUDIT))).text == "True False"
    assert (await runner.run("hello", context=by(AUDIT, ("pay",)))).text == "False False"


async def test_sub_agents_tools_and_branches_get_at_most_what_the_caller_may_read() -> None:
    seen: list[set[str]] = []

    def look(ctx: RunContext) -> None:
        seen.append(set(ctx.state))

    @tool
    def inspect_state(ctx: ToolContext) -> str:
        """Return the state."""
        seen.append(set(ctx.state))
        return repr(dict(ctx.state))

    helper = Does(name="helper", description="Helps.", do=look)
    models = [ScriptedModel([call("inspect_state"), call("helper", request="x")], "done")]
    model = Agent(
        name="model",
        model=models[0],
        tools=[inspect_state, helper],
        instruction=lambda ctx: repr(dict(ctx.state)),
    )
    tree = SequentialAgent(
        name="payment",
        callers={FRAUD: CALLERS[FRAUD]},
        sub_agents=[
            Writes(name="writes", values={"payment.card_new": "4222-new"}),
            Does(name="granted", do=look),
            ParallelAgent(name="both", sub_agents=[Does(name="left", do=look), model]),
        ],
        grants={"granted": Grant(read=("summary.*", "payment.card_*"))},
    )
    runner = await started(tree, config=RunConfig(snapshots=True, record_prompts=True))
    result = await runner.run("hello", context=by(FRAUD))
    assert seen[0] == {"summary.day"}
    assert len(seen) == 4
    assert all(one == set(MEMORY) - CARD_KEYS for one in seen[1:])
    snapshots = [event for event in result.events if event.kind is EventKind.SNAPSHOT]
    requests = [event for event in result.events if event.kind is EventKind.MODEL_REQUEST]
    assert len(snapshots) > 4
    assert requests
    events = [event for event in result.events if event.author != "writes"]
    for place in (models[0].requests, snapshots, events, result.state):
        text = repr(place)
        assert "not declared" in text  # what may be read is there
        for value in ("4111-private-card", "4222-new", "鈴木", "pin-9", "key-9"):
            assert value not in text


class Asks(BaseAgent):
    """Asks a person, and then returns the keys of the state."""

    async def run(self, ctx: RunContext) -> str:
        await ctx.request_input("May I?")
        return keys(ctx)


async def test_run_cannot_be_resumed_by_a_caller_with_another_grant() -> None:
    runner = await started(Asks(name="payment", callers=CALLERS))
    paused = await runner.run("hello", context=by(CHECKOUT))
    answer = approve(paused.requests[0].id)
    for caller in (AUDIT, "agent://fraud_detection_agent", "user://default"):
        with pytest.raises(PermissionDenied, match="has another grant"):
            await runner.resume(answer, context=by(caller))
    resumed = await runner.resume(answer, context=by("agent://other"))  # it has the same grant
    assert set(json.loads(resumed.text)) == set(MEMORY)


async def test_resumed_run_keeps_the_grant_of_its_caller(tmp_path: Path) -> None:
    store = tmp_path / "acc.db"
    runner = await started(Asks(name="payment", callers=CALLERS), store=store)
    paused = await runner.run("hello", context=by(AUDIT))
    await runner.aclose()
    other = Runner(Asks(name="payment", callers=CALLERS), store=store)
    resumed = await other.resume(approve(paused.requests[0].id))  # an operator, without a context
    await other.aclose()
    assert json.loads(resumed.text) == ["metrics.count", "summary.day"]
    assert set(resumed.state) == {"metrics.count", "summary.day"}


class PaymentAgent(Does):
    """The agent of the specification."""

    def filter_memory(self, memory: Mapping[str, Any], caller: str) -> Mapping[str, Any]:
        if caller == FRAUD:
            return {k: v for k, v in memory.items() if not k.startswith("payment.card_")}
        if caller == AUDIT:
            return {
                k: v for k, v in memory.items() if k.startswith("summary.") or k == "metrics.count"
            }
        return {k: "***" if k == "payment.card_number" else v for k, v in memory.items()}


@pytest.mark.parametrize("caller", [FRAUD, f"a2a:///{FRAUD}"])
async def test_filter_memory_hides_entries_and_new_ones(caller: str) -> None:
    def look(ctx: RunContext) -> str:
        ctx.state["payment.card_new"] = 1
        ctx.state["list"] = [1]
        ctx.state["list"].append(2)  # a visible value can be changed in place
        assert "payment.card_number" not in ctx.state
        assert ctx.state.get("payment.card_new") is None
        return keys(ctx)

    runner = await started(PaymentAgent(name="payment", do=look))
    result = await runner.run("hello", context=by(caller))
    hidden = {"payment.card_number", "payment.card_holder.account"}
    assert set(json.loads(result.text)) == (set(MEMORY) | {"list"}) - hidden
    assert result.state["list"] == [1, 2]
    assert not hidden & set(result.state)
    assert "payment.card_new" in await runner.state()


async def test_filter_memory_can_replace_values_and_is_combined_with_grants() -> None:
    def look(ctx: RunContext) -> str:
        return repr(dict(ctx.state))

    agent = PaymentAgent(
        name="payment", do=look, callers={"*": Grant(read=("payment.*", "metrics.*"))}
    )
    runner = await started(agent)
    text = (await runner.run("hello", context=by(CHECKOUT))).text
    assert "'payment.card_number': '***'" in text
    assert "4111" not in text
    assert "summary.day" not in text
    assert (await runner.run("hello", context=by(AUDIT))).state == {"metrics.count": 3}


async def test_filter_memory_without_result_is_a_clear_error() -> None:
    class Careless(Does):
        def filter_memory(self, memory: Any, caller: str) -> Any:
            return None

    with pytest.raises(InvalidInput, match="filter_memory of agent 'c' must return a mapping"):
        runner = await started(Careless(name="c", do=keys))
        await runner.run("hello")


@pytest.mark.parametrize(
    ("callers", "message"),
    [
        ({}, "callers must map"),
        ([AUDIT], "callers must map"),
        ({"": Grant()}, "callers must map"),
        ({AUDIT: ("summary.*",)}, r"callers\['agent://audit_agent'\] must be a Grant"),
        ({"*": Grant(), AUDIT: Grant(read=())}, r"never applies, because '\*' comes first"),
        ({"agent://*": Grant(), "agent://a_*": Grant()}, "never applies"),
    ],
)
def test_invalid_callers_are_an_error_of_the_agent(callers: Any, message: str) -> None:
    with pytest.raises(InvalidTree, match=message):
        Does(name="payment", callers=callers)


def test_invalid_filter_is_an_error_of_the_agent() -> None:
    class Waits(Does):
        async def filter_memory(self, memory: Any, caller: str) -> Any:  # type: ignore[override]
            return memory

    class Short(Does):
        def filter_memory(self, memory: Any) -> Any:  # type: ignore[override]
            return memory

    for kind in (Waits, Short):
        with pytest.raises(InvalidTree, match="write def filter_memory"):
            kind(name="payment")


def test_only_the_root_restricts_callers() -> None:
    for child in (
        Does(name="a", description="A.", callers=CALLERS),
        PaymentAgent(name="a", description="A."),
    ):
        with pytest.raises(InvalidTree, match="only the root has them"):
            SequentialAgent(name="s", sub_agents=[child])
        with pytest.raises(InvalidTree, match="only the root has them"):
            Agent(name="s", model=ScriptedModel("x"), tools=[child])


async def post(
    agent: BaseAgent, path: str, body: Any, caller: str, store: str | Path = "memory"
) -> tuple[int, str, str]:
    """Send a request as a caller; return the status, the response and the tasks of the caller."""
    tokens = [TokenEntry(sha256=token_hash(f"acc_{name}"), caller=name) for name in (FRAUD, AUDIT)]
    app = create_app(agent, verifier=StaticTokens(tokens), ag_ui=True, store=store)
    headers = {"Authorization": f"Bearer acc_{caller}", "A2A-Version": "1.0"}
    transport = httpx2.ASGITransport(app=app)
    async with (
        app.lifespan(),
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http,
    ):
        response = await http.post(path, json=body, headers=headers)
        tasks = await http.get("/tasks", headers=headers)
        return response.status_code, response.text, tasks.text


async def test_memory_that_a_caller_must_not_set_is_rejected_before_a_task_exists() -> None:
    @intent
    def count(inputs: dict[str, Any], memory: Any) -> dict[str, Any]:
        """Count."""
        return {"keys": sorted(memory)}

    desk = IntentAgent(name="desk", intents=[count], callers=CALLERS)
    body = {"intent": "count", "inputs": {}, "memory": {"summary.day": 1}}
    status, text, tasks = await post(desk, "/run", body, AUDIT)
    assert status == 400
    assert "'summary.day'" in text
    assert json.loads(tasks)["totalSize"] == 0
    status, text, _ = await post(desk, "/run", {**body, "memory": {"payment.card_x": 1}}, FRAUD)
    assert (status, json.loads(text)) == (200, {"keys": []})


async def test_state_that_a_caller_may_not_read_is_no_input_of_its_message() -> None:
    @intent
    def pay(memo: str, card: str) -> dict[str, str]:
        """Pay."""
        return {"card": card}

    agent = pay.as_agent()
    agent.callers = {FRAUD: Grant(read=("*", "!card")), AUDIT: Grant()}
    runner = Runner(agent)
    await runner.update_state({"card": "4111-private-card"})
    with pytest.raises(InvalidInput, match="'card'"):
        await runner.run("hello", context=by(FRAUD))
    assert {event.kind for event in await runner.events()} == {EventKind.STATE}
    allowed = await runner.run("hello", context=by(AUDIT))
    assert json.loads(allowed.text) == {"card": "4111-private-card"}


async def test_ag_ui_shows_only_what_the_caller_may_read(tmp_path: Path) -> None:
    agent = Writes(name="payment", values=MEMORY, callers=CALLERS)
    body = {
        "threadId": "t",
        "runId": "r",
        "messages": [{"id": "u", "role": "user", "content": "hi"}],
    }
    for shown in ('"path":"/payment.total"', '"payment.total":9'):
        status, text, _ = await post(agent, "/ag-ui", body, FRAUD, tmp_path / "acc.db")
        assert status == 200
        assert shown in text.replace(" ", "")
        assert "card_" not in text


async def test_filter_memory_applies_in_parallel_branches() -> None:
    class Filtered(ParallelAgent):
        def filter_memory(self, memory: Mapping[str, Any], caller: str) -> Mapping[str, Any]:
            return {k: v for k, v in memory.items() if k.startswith("summary.")}

    seen: list[set[str]] = []
    branches = [
        Does(name=name, do=lambda ctx: seen.append(set(ctx.state))) for name in ("left", "right")
    ]
    runner = await started(Filtered(name="both", sub_agents=branches))
    await runner.run("hello", context=by(AUDIT))
    assert seen == [{"summary.day"}] * 2


async def test_filtered_run_is_resumed_only_by_its_caller() -> None:
    class Filtered(Asks):
        def filter_memory(self, memory: Mapping[str, Any], caller: str) -> Mapping[str, Any]:
            return memory if caller == CHECKOUT else {}

    runner = await started(Filtered(name="payment"))
    paused = await runner.run("hello", context=by(f"a2a:///{CHECKOUT}"))
    answer = approve(paused.requests[0].id)
    with pytest.raises(PermissionDenied, match="resume it as"):
        await runner.resume(answer, context=by(FRAUD))
    resumed = await runner.resume(answer, context=by(f"ag-ui:///{CHECKOUT}"))
    assert set(json.loads(resumed.text)) == set(MEMORY)
