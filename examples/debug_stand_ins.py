"""Debug mode: try a coordinator without the agents it delegates to (section 11.3).

`RunConfig(stubs=...)` answers in place of the named agents, `debug=True` in place of everyone
the root delegates to. The tree stays as it is; no agent needs an `if debug_mode` of its own. You
will see one run against a service that is down, and three runs that do not touch it.

Run it: python examples/debug_stand_ins.py
"""

import asyncio

from acc import AccError, Agent, BaseAgent, RunConfig, RunContext, Runner, RunResult
from acc.testing import ScriptedModel, call

CALLS: list[str] = []


class RemoteSummarizer(BaseAgent):
    """Stands for an agent on another machine, which is down today."""

    async def run(self, ctx: RunContext) -> str:
        """Try to reach it."""
        CALLS.append(ctx.message)
        raise ConnectionError("https://summary-agent/run does not answer")


def report_tree() -> Agent:
    """Return a coordinator whose model hands the text to the remote summarizer."""
    return Agent(
        name="report",
        # A real model goes here: this is the part that you want to try.
        model=ScriptedModel(call("transfer_to_agent", agent_name="summarizer")),
        sub_agents=[RemoteSummarizer(name="summarizer", description="Summarizes a text.")],
    )


async def run(config: RunConfig) -> RunResult:
    """Run the tree on one text."""
    runner = Runner(report_tree(), config=config)
    return await runner.run(user_id="u1", session_id="s1", message="Q3 was good. Q4 was better.")


def first_sentence(ctx: RunContext) -> str:
    """Stand in with a function of the context, for answers that depend on the question."""
    return f"[DEBUG] {ctx.message.partition('. ')[0]}."


async def main() -> None:
    """Run for real, then with three kinds of stand-in."""
    failure = ""
    try:
        await run(RunConfig())
    except AccError as error:
        failure = f"{error.code}: {error}"
    fixed = await run(RunConfig(stubs={"summarizer": "[DEBUG] Summary would go here."}))
    computed = await run(RunConfig(stubs={"summarizer": first_sentence}))
    everyone = await run(RunConfig(debug=True))
    print(failure, fixed.text, computed.text, everyone.text, sep="\n")

    assert failure.startswith("agent_failed: ") and "summary-agent" in failure
    assert fixed.text == "[DEBUG] Summary would go here."
    assert computed.text == "[DEBUG] Q3 was good."
    assert everyone.text == "[debug] summarizer would answer: Q3 was good. Q4 was better."
    assert len(CALLS) == 1, "the stand-ins called nobody"
    transfers = [e.actions.transfer_to_agent for e in fixed.events if e.actions.transfer_to_agent]
    assert transfers == ["summarizer"], "the coordinator itself ran as it always does"


if __name__ == "__main__":
    asyncio.run(main())
