"""Plan, execute, reflect: only validated outcomes are committed to memory.

A planner with ACC memory delegates each step to a loop of executor and reflector. The loop is a
tool of the planner, so the planner sees and remembers only validated outcomes; failed attempts are
stored as events but not in the memory. The example shows a rejected guess, a step that cannot be
validated, and a second question that is answered from the memory.

Run it: python examples/plan_execute_reflect.py
"""

import asyncio

from acc import (
    Agent,
    AgentTool,
    BaseAgent,
    EventKind,
    LoopAgent,
    ModelRequest,
    RunContext,
    Runner,
    ToolCall,
    ToolContext,
)
from acc.testing import ScriptedModel, call, last_result

SENSORS = {"disk": 71, "queue": 12}


def probe(metric: str, tool_context: ToolContext) -> int:
    """Measure a metric and store the evidence until the end of the run."""
    tool_context.state[f"temp:{metric}"] = SENSORS[metric]
    return SENSORS[metric]


def work(prompt: ModelRequest) -> ToolCall | str:
    """Return the response of the model: guess first, measure after feedback."""
    metric = prompt.query.split()[-1]
    if "measure" not in prompt.instruction or metric not in SENSORS:
        return f"The {metric} is at 40 %."
    if not any(message.role == "tool" for message in prompt.following):
        return call("probe", metric=metric)
    return f"The {metric} is at {last_result(prompt)} %."


class Reflector(BaseAgent):
    """Accepts an outcome if there is evidence for it."""

    async def run(self, ctx: RunContext) -> str:
        """Compare the claim with the measurement; escalation ends the loop."""
        metric = ctx.message.split()[-1]
        evidence = ctx.state.get(f"temp:{metric}")
        if evidence is not None and f" {evidence} %" in ctx.state["outcome"]:
            ctx.state["feedback"] = ""
            ctx.escalated = True
            return str(ctx.state["outcome"])
        ctx.state["feedback"] = "no evidence, measure it"
        return f"No validated outcome for the {metric}."


execute_step = LoopAgent(
    name="execute_step",
    description="Executes one step of the plan and returns its validated outcome.",
    sub_agents=[
        Agent(
            name="executor",
            model=ScriptedModel(work, repeat=True),
            instruction="Do the step. On your last attempt: {feedback?}",
            tools=[probe],
            output_key="outcome",
        ),
        Reflector(name="reflector"),
    ],
    max_iterations=3,
)
planner = Agent(
    name="planner",
    # A real model makes the plan; this one has three steps and then answers a question.
    model=ScriptedModel(
        call("execute_step", request="Check the disk"),
        call("execute_step", request="Check the queue"),
        call("execute_step", request="Check the humidity"),
        "The plan is done.",
        lambda prompt: next(str(r.content) for m in prompt.earlier for r in m.results),
    ),
    tools=[AgentTool(agent=execute_step)],
    memory="acc",
)


async def main() -> None:
    """Execute the plan, then ask for an outcome."""
    runner = Runner(planner)
    question = "What are the disk, the queue and the humidity at?"
    plan = await runner.run(user_id="u1", session_id="s1", message=question)
    for event in plan.events:
        if event.kind is EventKind.MESSAGE:
            print(f"{event.author:>9}: {event.text}")
    later = await runner.run(user_id="u1", session_id="s1", message="What is the disk at?")
    commits = [e for e in (*plan.events, *later.events) if e.kind is EventKind.MEMORY]
    print(f"\ncommitted:\n{commits[-1].detail['ccs']}\n\nanswer: {later.text}")

    guesses = [e for e in plan.events if e.author == "executor" and "40 %" in e.text]
    assert len(guesses) == 5, "the guesses are stored as events"
    assert {commit.author for commit in commits} == {"planner"}
    assert not any("40 %" in str(commit.detail) for commit in commits), (
        "guesses were never committed"
    )
    assert later.text == "The disk is at 71 %."


if __name__ == "__main__":
    asyncio.run(main())
