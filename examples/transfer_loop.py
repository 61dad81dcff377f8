"""A transfer loop, stopped and shown (section 3.2).

Two agents with blurred responsibilities hand a customer back and forth for ever. `max_hops` ends
it with an error that names the way it went, and `max_llm_calls` would be the next safety net. You
will see the path, the failed run on record, and the cure: an agent that cannot hand back.

Run it: python examples/transfer_loop.py
"""

import asyncio

from acc import AccError, Agent, RunConfig, Runner
from acc.testing import ScriptedModel, call


def desk(*, cured: bool) -> Agent:
    """Return two agents that both think the other is responsible, or two that do not.

    The scripts are what a real model may do where descriptions and instructions leave it unclear.
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
        model=ScriptedModel("Refunded: 2,400 yen." if cured else to_orders, repeat=True),
        description="Pays money back.",
        # The cure: whoever ends the work cannot pass it on, so it has to end it.
        disallow_transfer_to_parent=cured,
        disallow_transfer_to_peers=cured,
    )
    return Agent(name="desk", model=ScriptedModel(to_orders), sub_agents=[orders, refunds])


async def main() -> None:
    """Run into the loop, look at it, and run the cured tree."""
    # 6 hops are the default; `max_llm_calls` bounds every other way of going round in circles.
    config = RunConfig(max_hops=4, max_llm_calls=20)
    runner = Runner(desk(cured=False), config=config)
    stopped: AccError | None = None
    try:
        await runner.run(user_id="u1", session_id="s1", message="I want my money back")
    except AccError as error:
        stopped = error
        print(f"{error.code}: {error}")
    ended = (await runner.events(user_id="u1", session_id="s1"))[-1]
    print(f"on record: {ended.status}, {ended.detail}")

    cured = Runner(desk(cured=True), config=config)
    result = await cured.run(user_id="u1", session_id="s1", message="I want my money back")
    print(f"cured: {result.text}")

    assert stopped is not None and stopped.code == "transfer_loop"
    assert "desk → orders → refunds → orders → refunds" in str(stopped)
    assert ended.status == "failed"
    assert result.text == "Refunded: 2,400 yen."


if __name__ == "__main__":
    asyncio.run(main())
