"""A long-running tool: start the work now, hand in its outcome later (section 9).

The tool only orders a render and returns a ticket; the run pauses with a request of kind
"outcome". When the render farm calls back, in this process or another, `resume` goes on with what
it reports. You will see the ticket, the pause, a second question while waiting, and the outcome.

Run it: python examples/long_running_tool.py
"""

import asyncio

from acc import AccError, Agent, EventKind, Prompt, Runner, approve, tool
from acc.testing import ScriptedModel, call, last_result

FARM: dict[str, str] = {}  # what the render farm was asked to do, by ticket


@tool(long_running=True)
def render_video(title: str) -> dict[str, str]:
    """Order a video; it will take a while."""
    ticket = f"job-{len(FARM) + 1}"
    FARM[ticket] = title
    return {"ticket": ticket, "expected": "40 minutes"}


def report(prompt: Prompt) -> str:
    """Do what a real model would: tell the user what the tool gave back."""
    return f"Your video is ready: {last_result(prompt)['url']}"


studio = Agent(
    name="studio",
    model=ScriptedModel(call("render_video", title="Spring launch"), report),
    tools=[render_video],
)


async def main() -> None:
    """Order a video, wait, and take what the farm reports."""
    runner = Runner(studio)
    ordered = await runner.run(user_id="u1", session_id="s1", message="Render the launch video")
    request = ordered.requests[0]
    ticket = request.arguments["ticket"]["ticket"]
    print(f"{ordered.status}: {request.message}\n  {request.kind}, {dict(request.arguments)}")
    assert ordered.status == "input_required" and FARM[ticket] == "Spring launch"

    refused = ""
    try:  # a session that waits takes no other message: resume it, or abandon it
        await runner.run(user_id="u1", session_id="s1", message="Are you done?")
    except AccError as error:
        refused = error.code
        print(f"meanwhile: {refused}")

    # Later, in the farm's callback. The id of the request is all that it has to know.
    outcome = {"url": f"https://video.example/{ticket}.mp4", "seconds": 42}
    done = await runner.resume(
        user_id="u1", session_id="s1", answers=[approve(request.id, value=outcome, by="farm")]
    )
    print(f"{done.status}: {done.text}")

    results = [event.result for event in done.events if event.kind is EventKind.TOOL_RESULT]
    assert refused == "session_waiting"
    assert done.status == "completed" and done.text.endswith("/job-1.mp4")
    assert results[0] is not None and results[0].content == outcome
    assert len(FARM) == 1, "going on did not order it again"


if __name__ == "__main__":
    asyncio.run(main())
