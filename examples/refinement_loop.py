"""A loop that refines a draft until it is good (section 5.3).

A writer drafts; a critic checks the draft with a tool and calls `exit_loop` when nothing is
missing. A tool may also call `exit_loop(tool_context)` itself. `max_iterations` is required, so the
loop always ends. The example shows a draft that improves, and one that reaches the limit.

Run it: python examples/refinement_loop.py
"""

import asyncio

from acc import Agent, LoopAgent, ModelRequest, Runner, ToolCall, ToolContext, exit_loop
from acc.testing import ScriptedModel, call, last_result

DRAFTS = (
    "Our service was down.",
    "Our service was down on 3 May.",
    "Our service was down on 3 May from 09:10 to 09:40. We are sorry.",
)


def check_draft_quality(draft: str, tool_context: ToolContext) -> dict[str, object]:
    """Return what is missing in a draft."""
    iteration = tool_context.state.get("loop_iteration", 0) + 1
    tool_context.state["loop_iteration"] = iteration
    wanted = {"a date": "May", "times": ":", "an apology": "sorry"}
    missing = [what for what, sign in wanted.items() if sign not in draft]
    return {"quality": "poor" if missing else "good", "feedback": missing}


def judge(prompt: ModelRequest) -> ToolCall:
    """Return the response of the model: check the draft in the instruction."""
    return call("check_draft_quality", draft=prompt.instruction.partition(": ")[2])


def decide(prompt: ModelRequest) -> ToolCall | str:
    """Leave the loop if nothing is missing, otherwise return feedback."""
    feedback = last_result(prompt)["feedback"]
    return call("exit_loop") if not feedback else f"add {', '.join(feedback)}"


def refinement_loop(*drafts: str) -> LoopAgent:
    """Return the loop with a writer that returns these drafts."""
    draft_refiner = Agent(
        name="draft_refiner",
        model=ScriptedModel(*drafts, repeat=True),
        instruction="Write an incident notice. Feedback on your last draft: {feedback?}",
        output_key="current_draft",
    )
    critic = Agent(
        name="critic",
        model=ScriptedModel(*[judge, decide] * 5),
        instruction="Check this draft: {current_draft}",
        tools=[check_draft_quality, exit_loop],
        output_key="feedback",
    )
    return LoopAgent(
        name="document_refinement_loop",
        sub_agents=[draft_refiner, critic],
        max_iterations=5,
    )


async def main() -> None:
    """Refine a draft that improves and one that does not."""
    runner = Runner(refinement_loop(*DRAFTS))
    good = await runner.run(user_id="u1", session_id="s1", message="Write the notice.")
    for event in good.events:
        if event.text and event.author in ("draft_refiner", "critic"):
            print(f"{event.author:>14}: {event.text}")
    runner = Runner(refinement_loop(DRAFTS[0]))
    unchanged = await runner.run(user_id="u1", session_id="s1", message="Write the notice.")
    print(f"the unchanged draft stopped after {unchanged.state['loop_iteration']} rounds")

    assert good.state["loop_iteration"] == 3
    assert good.text == good.state["current_draft"] == DRAFTS[-1]
    assert any(event.actions.escalate for event in good.events), "exit_loop is an event"
    assert unchanged.state["loop_iteration"] == 5
    assert not any(event.actions.escalate for event in unchanged.events)


if __name__ == "__main__":
    asyncio.run(main())
