"""Agents that share files as versioned artifacts (section 10.2).

A tool saves a report as an artifact, an editor saves a second version, and a third agent reads it
with the placeholder `{artifact.analysis_report.md}`. The example prints each version with its
author and size, and the corrected sentence.

Run it: python examples/shared_artifacts.py
"""

import asyncio

from acc import Agent, BaseAgent, EventKind, RunContext, Runner, SequentialAgent, ToolContext
from acc.testing import ScriptedModel, call

REPORT = "analysis_report.md"


def save_report_artifact(report_content: str, tool_context: ToolContext) -> dict[str, str]:
    """生成したレポートをArtifactとして保存"""
    tool_context.save_artifact(REPORT, report_content, media_type="text/markdown")
    return {"status": "saved", "filename": REPORT}


class Editor(BaseAgent):
    """An agent without a model that edits the file."""

    async def run(self, ctx: RunContext) -> str:
        """Load the latest version, correct it and save the next version."""
        report = await ctx.artifacts.load(REPORT)
        assert report is not None
        corrected = report.text.replace("売上は12億円", "売上は12.4億円")
        version = await ctx.artifacts.save(REPORT, corrected, media_type=report.media_type)
        return f"第{version}版を保存しました。"


analyst = Agent(
    name="analyst",
    # A real model writes the report.
    model=ScriptedModel(
        call("save_report_artifact", report_content="# 第1四半期\n\n売上は12億円でした。\n"),
        "レポートを保存しました。",
    ),
    tools=[save_report_artifact],
)
presenter = Agent(
    name="presenter",
    model=ScriptedModel(lambda prompt: prompt.instruction.partition("\n\n")[2].strip()),
    instruction="レポートを一文で紹介してください: {artifact.analysis_report.md}",
)
team = SequentialAgent(name="team", sub_agents=[analyst, Editor(name="editor"), presenter])


async def main() -> None:
    """Run the team and print the versions."""
    runner = Runner(team)
    result = await runner.run(user_id="u1", session_id="s1", message="四半期レポートを作って")
    saved = [event for event in result.events if event.kind is EventKind.ARTIFACT]
    for event in saved:
        print(f"{event.author}: {dict(event.detail)}")
    print(f"presenter: {result.text}")

    versions = [event.detail["version"] for event in saved]
    assert [event.author for event in saved] == ["analyst", "editor"]
    assert result.text == "売上は12.4億円でした。", "the presenter read the latest version"
    assert versions[1] == versions[0] + 1


if __name__ == "__main__":
    asyncio.run(main())
