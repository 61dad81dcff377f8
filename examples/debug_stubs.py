"""Debug mode: run a coordinator without the agents it delegates to (section 11.3).

`RunConfig(stubs=...)` replaces the answers of the named agents, `debug=True` those of all agents
that the root delegates to. The tree does not change, and no agent needs an `if debug_mode`. The
example shows one run that calls an unavailable service and three runs that use stubs instead.

Run it: python examples/debug_stubs.py
"""

import asyncio

from acc import AccError, Agent, BaseAgent, RunConfig, RunContext, Runner, RunResult
from acc.testing import ScriptedModel, call

CALLS: list[str] = []


class RemoteSummarizer(BaseAgent):
    """An agent on another machine that is unavailable."""

    async def run(self, ctx: RunContext) -> str:
        """Try to call the other machine."""
        CALLS.append(ctx.message)
        raise ConnectionError("https://summary-agent/run does not answer")


def report_tree() -> Agent:
    """Return a coordinator whose model transfers to the remote summarizer."""
    return Agent(
        name="report",
        # The part under test; use a real model here.
        model=ScriptedModel(call("transfer_to_agent", agent_name="summarizer")),
        sub_agents=[RemoteSummarizer(name="summarizer", description="Summarizes a text.")],
    )


async def run(config: RunConfig) -> RunResult:
    """Run the tree on one text."""
    runner = Runner(report_tree(), config=config)
    return await runner.run(user_id="u1", session_id="s1", message="Q3 was good. Q4 was better.")


def first_sentence(ctx: RunContext) -> str:
    """Return a stub answer that depends on the message."""
    return f"[DEBUG] {ctx.message.partition('. ')[0]}."


async def main() -> None:
    """Run without stubs, then with three kinds of stub."""
    failure = ""
    try:
        await run(RunConfig())
    except AccError as error:
        failure = f"{error.code}: {error}"
    fixed = await run(RunConfig(stubs={"summarizer": "[DEBUG] Summary would go here."}))
    computed = await run(RunConfig(stubs={"summarizer": first_sentence}))
    all_agents = await run(RunConfig(debug=True))
    print(failure, fixed.text, computed.text, all_agents.text, sep="\n")

    assert failure.startswith("agent_failed: ") and "summary-agent" in failure
    assert fixed.text == "[DEBUG] Summary would go here."
    assert computed.text == "[DEBUG] Q3 was good."
    assert all_agents.text == "[debug] summarizer would answer: Q3 was good. Q4 was better."
    assert len(CALLS) == 1, "the stubs did not call the service"
    transfers = [e.actions.transfer_to_agent for e in fixed.events if e.actions.transfer_to_agent]
    assert transfers == ["summarizer"], "the coordinator itself was not replaced"


if __name__ == "__main__":
    asyncio.run(main())
