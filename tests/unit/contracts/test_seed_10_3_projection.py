"""Section 10.3: a worker gets what its contract names, and at most the caller's permissions."""

import dataclasses
from typing import Any

import pytest

from acc import Runner
from acc.bootstrap.agents import make_services
from acc.contracts import FunctionNode, IntentAgent, ToolSchema, run_agent_async

#: The context of section 10.3, as it is printed there.
CONTEXT = {
    "caller": "agent://report_orchestrator",
    "request_id": "req-cbe13a",
    "trace_id": "trace-7739a",
    "user_id": "user-12081",
    "permissions": ["read:docs", "write:summary"],
    "memory": {"pipeline_stage": "extracted", "current_doc": "document_003"},
}


def prepare_worker_payload(memory: dict[str, Any], context: dict[str, Any]) -> dict[str, Any]:
    return {
        "inputs": {"text": memory["document_text"]},
        "context": {
            "caller": context["caller"],
            "trace_id": context["trace_id"],
            "permissions": context["permissions"],
        },
    }


class Recorder:
    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    async def call(self, url: str, payload: Any, **options: Any) -> dict[str, Any]:
        self.sent.append(dict(payload))
        return {"ok": True}


async def run(node: FunctionNode, data: dict[str, Any]) -> tuple[dict[str, Any], Recorder]:
    recorder = Recorder()
    services = dataclasses.replace(make_services(), intents=recorder)
    agent = IntentAgent(name="root", intents=[node])
    return await run_agent_async(Runner(agent, services=services), data), recorder


class ForwardNode(FunctionNode):
    def run(self, inputs: Any, memory: Any, context: Any) -> dict[str, Any]:
        payload = prepare_worker_payload({"document_text": "text"}, context)
        self.call_agent(url="https://worker/run", payload={"intent": "summarize", **payload})
        return {"keys": sorted(context)}


async def test_projection_of_the_seed_reaches_the_worker() -> None:
    _, recorder = await run(ForwardNode(), {"intent": "forward", "context": CONTEXT})
    (sent,) = recorder.sent
    assert sent["inputs"] == {"text": "text"}
    assert sent["context"]["permissions"] == ["read:docs", "write:summary"]
    assert sent["context"]["trace_id"] == "trace-7739a"
    assert sent["context"]["on_behalf_of"] == "agent://report_orchestrator"
    assert "user_id" not in sent["context"]
    assert "memory" not in sent["context"]


@pytest.mark.parametrize("names", [(), ("trace_id",)], ids=["all", "trace_id"])
async def test_permissions_of_a_delegated_call_cannot_grow(names: tuple[str, ...]) -> None:
    class NarrowSchema(ToolSchema):
        name = "widen"
        context = names

    class WidenNode(FunctionNode):
        schema_class = NarrowSchema

        def run(self, inputs: Any, memory: Any, context: Any) -> dict[str, Any]:
            asked = {"permissions": ["read:docs", "admin"]}
            self.call_agent(url="https://worker/run", payload={"intent": "x", "context": asked})
            self.call_agent(url="https://worker/run", payload={"intent": "x"})
            return {"keys": sorted(context)}

    outputs, recorder = await run(WidenNode(), {"intent": "widen", "context": CONTEXT})
    first, second = (sent["context"]["permissions"] for sent in recorder.sent)
    assert first == ["read:docs"]
    assert second == ["read:docs", "write:summary"]
    if names:
        assert outputs["keys"] == ["trace_id"]


async def test_worker_reads_only_the_memory_its_contract_names() -> None:
    class ReadSchema(ToolSchema):
        name = "read"
        reads = ("summary.*",)
        writes = ()

    class ReadNode(FunctionNode):
        schema_class = ReadSchema

        def run(self, inputs: Any, memory: Any, context: Any) -> dict[str, Any]:
            return {"keys": sorted(memory)}

    data = {"intent": "read", "memory": {"summary.length": "short"}, "context": CONTEXT}
    outputs, _ = await run(ReadNode(), data)
    assert outputs == {"keys": ["summary.length"]}
    with pytest.raises(ValueError, match="not read by this intent"):
        await run(ReadNode(), {**data, "memory": {"payment.card_1": "4"}})
