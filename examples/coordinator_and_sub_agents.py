"""A coordinator with sub-agents: research first, then the report (sections 2.1 and 3.1).

The model of the orchestrator reads the descriptions of the sub-agents and calls
`transfer_to_agent`. The researcher has `returns_control`, so the orchestrator continues after it.
The writer has not, so it stays active and answers the next message. The example prints each
transfer and message.

Run it: python examples/coordinator_and_sub_agents.py
"""

import asyncio

from acc import Agent, EventKind, Runner
from acc.testing import ScriptedModel, call

LIBRARY = {
    "再生可能エネルギー": "2023年の電源構成に占める再生可能エネルギーの割合は21.7%。",
    "蓄電池": "蓄電池の価格は2010年から約90%下がった。",
}


def search(topic: str) -> str:
    """Return the library entry for a topic."""
    return LIBRARY.get(topic, "該当なし")


# The scripts replace the decisions of a real model. Without `model`, the embedded model is used.
research_agent = Agent(
    name="researcher",
    model=ScriptedModel(
        [call("search", topic="再生可能エネルギー"), call("search", topic="蓄電池")],
        "再エネの割合は21.7%、蓄電池の価格は約90%下落。",
    ),
    instruction="調査専門家です。検索ツールを使って関連情報を収集します。",
    description="トピックについて情報を検索します。",
    tools=[search],
    returns_control=True,
)
writer_agent = Agent(
    name="writer",
    model=ScriptedModel(
        lambda prompt: "レポート: " + next(m.text for m in prompt.following if m.text),
        "見出しは「蓄電池が支える再エネ」です。",
    ),
    instruction="熟練したライターです。提供された情報を整合性のあるレポートにまとめます。",
    description="情報を基にサマリー・レポートを作成します。",
)
report_orchestrator = Agent(
    name="report_orchestrator",
    model=ScriptedModel(
        call("transfer_to_agent", agent_name="researcher"),
        call("transfer_to_agent", agent_name="writer"),
    ),
    instruction="まず 'researcher' で情報収集し、次に 'writer' に調査結果を渡します。",
    description="調査とレポート作成を統括します。",
    sub_agents=[research_agent, writer_agent],
)


async def main() -> None:
    """Ask for a report, then send a message to the agent that is active now."""
    runner = Runner(report_orchestrator)
    report = await runner.run(user_id="u1", session_id="s1", message="再エネのレポートを")
    for event in report.events:
        if event.kind is EventKind.TRANSFER:
            print(f"{'transfer':>12}: {' → '.join(event.detail['path'])}")
        elif event.kind is EventKind.MESSAGE:
            print(f"{event.author:>12}: {event.text}")
    title = await runner.run(user_id="u1", session_id="s1", message="見出しは？")
    print(f"{title.events[-2].author:>12}: {title.text}")

    transfers = [e.actions.transfer_to_agent for e in report.events if e.kind is EventKind.TRANSFER]
    assert transfers == ["researcher", "writer"]
    assert report.text.startswith("レポート") and "21.7%" in report.text
    assert title.text.startswith("見出し"), "the writer is still active"
    assert report.usage.llm_calls == 5 and report.usage.tool_calls == 4


if __name__ == "__main__":
    asyncio.run(main())
