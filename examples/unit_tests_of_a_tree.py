"""Unit tests of agents in five lines each (section 11.4).

A ScriptedModel returns prepared responses and records its prompts; everything else is the real
runtime. The seven tests cover an answer, a prompt, a missing argument, a failing tool, a route, a
transfer and a limit. They also run with `pytest examples/unit_tests_of_a_tree.py`.

Run it: python examples/unit_tests_of_a_tree.py
"""

# ruff: noqa: D103 - the names of tests describe them

import asyncio

from acc import AccError, Agent, BaseAgent, EventKind, RouterAgent, RunConfig, Runner, RunResult
from acc.testing import ScriptedModel, call, last_result


def summarize_text(text: str) -> dict[str, str]:
    """Return the first sentence of a text."""
    if not text:
        raise ValueError("text is empty")
    return {"summary": text.partition("。")[0] + "。"}


async def run(
    agent: BaseAgent, message: str = "要約して", config: RunConfig | None = None
) -> RunResult:
    """Run one turn of a fixed user and session."""
    return await Runner(agent).run(user_id="t", session_id="t", message=message, config=config)


async def test_summary_of_short_text() -> None:
    tool_call = call("summarize_text", text="委譲は便利。詳細は後述。")
    model = ScriptedModel(tool_call, lambda prompt: str(last_result(prompt)["summary"]))
    result = await run(Agent(name="a", model=model, tools=[summarize_text]))
    assert result.text == "委譲は便利。"


async def test_model_gets_instruction_and_query() -> None:
    model = ScriptedModel("はい。")
    await run(Agent(name="a", model=model, instruction="敬語で。"), "元気ですか")
    assert model.requests[0].instruction == "敬語で。" and model.requests[0].query == "元気ですか"


async def test_missing_argument_is_reported_to_the_model() -> None:
    model = ScriptedModel(call("summarize_text"), lambda prompt: str(last_result(prompt)))
    result = await run(Agent(name="a", model=model, tools=[summarize_text]))
    assert "missing required field `text`" in result.text


async def test_tool_error_is_reported_to_the_model() -> None:
    model = ScriptedModel(call("summarize_text", text=""), lambda prompt: str(last_result(prompt)))
    result = await run(Agent(name="a", model=model, tools=[summarize_text]))
    assert "text is empty" in result.text


async def test_contract_is_routed_to_the_lawyer() -> None:
    lawyer = Agent(name="lawyer", model=ScriptedModel("契約です。"), description="契約書 法律")
    cook = Agent(name="cook", model=ScriptedModel("料理です。"), description="料理 レシピ")
    result = await run(RouterAgent(name="router", sub_agents=[cook, lawyer]), "契約書を見て")
    assert result.text == "契約です。"


async def test_coordinator_transfers_to_the_writer() -> None:
    writer = Agent(name="writer", model=ScriptedModel("書きました。"), description="書く")
    model = ScriptedModel(call("transfer_to_agent", agent_name="writer"))
    result = await run(Agent(name="hub", model=model, sub_agents=[writer]), "書いて")
    assert [e.author for e in result.events if e.kind is EventKind.MESSAGE] == ["user", "writer"]


async def test_endless_agent_stops_at_the_limit() -> None:
    model = ScriptedModel(call("summarize_text", text="終わらない。"), repeat=True)
    limit = RunConfig(max_llm_calls=3)
    try:
        await run(Agent(name="a", model=model, tools=[summarize_text]), config=limit)
    except AccError as error:
        assert error.code == "budget_exceeded" and len(model.requests) == 3
    else:
        raise AssertionError("the run must fail")


def main() -> None:
    """Run all tests of this file."""
    tests = {name: thing for name, thing in globals().items() if name.startswith("test_")}
    for name, test in tests.items():
        asyncio.run(test())
        print(f"passed: {name.removeprefix('test_').replace('_', ' ')}")
    assert len(tests) == 7


if __name__ == "__main__":
    main()
