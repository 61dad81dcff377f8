"""Detection of a transfer loop (section 3.2).

Two agents with unclear responsibilities transfer a customer back and forth. `max_hops` ends the run
with an error that contains the path; `max_llm_calls` is the next limit. The example prints the path
and the stored end of the run, and fixes the loop with an agent that cannot transfer back.

Run it: python examples/transfer_loop.py
"""

import asyncio

from acc import AccError, Agent, RunConfig, Runner
from acc.testing import ScriptedModel, call


def desk(*, fixed: bool) -> Agent:
    """Return two agents that transfer to each other, or two that do not.

    A real model may respond like these scripts if descriptions and instructions are unclear.
    """
    to_refunds = call("transfer_to_agent", agent_name="refunds")
    to_orders = call("transfer_to_agent", agent_name="orders")
    orders = Agent(
        name="orders",
        model=ScriptedModel(to_refunds, repeat=True),
        description="Knows what was ordered.",
    )
    refunds = Agent(
        name="refunds",
        model=ScriptedModel("Refunded: 2,400 yen." if fixed else to_orders, repeat=True),
        description="Pays money back.",
        # The fix: the agent that completes the work cannot transfer it.
        disallow_transfer_to_parent=fixed,
        disallow_transfer_to_peers=fixed,
    )
    return Agent(name="desk", model=ScriptedModel(to_orders), sub_agents=[orders, refunds])


async def main() -> None:
    """Run the loop, then run the fixed tree."""
    # The default of `max_hops` is 6; `max_llm_calls` also bounds loops without transfers.
    config = RunConfig(max_hops=4, max_llm_calls=20)
    runner = Runner(desk(fixed=False), config=config)
    stopped: AccError | None = None
    try:
        await runner.run(user_id="u1", session_id="s1", message="I want my money back")
    except AccError as error:
        stopped = error
        print(f"{error.code}: {error}")
    ended = (await runner.events(user_id="u1", session_id="s1"))[-1]
    print(f"stored: {ended.status}, {ended.detail}")

    fixed = Runner(desk(fixed=True), config=config)
    result = await fixed.run(user_id="u1", session_id="s1", message="I want my money back")
    print(f"fixed: {result.text}")

    assert stopped is not None and stopped.code == "transfer_loop"
    assert "desk → orders → refunds → orders → refunds" in str(stopped)
    assert ended.status == "failed"
    assert result.text == "Refunded: 2,400 yen."


if __name__ == "__main__":
    asyncio.run(main())
