"""A long-running tool: start the work now, provide its outcome later (section 9).

The tool orders a video and returns a ticket; the run pauses with a request of kind "outcome". When
the render farm calls back, in this process or another, `resume` continues the run with the outcome.
The example prints the ticket, the error for a message while the run waits, and the outcome.

Run it: python examples/long_running_tool.py
"""

import asyncio

from acc import AccError, Agent, EventKind, ModelRequest, Runner, approve, tool
from acc.testing import ScriptedModel, call, last_result

FARM: dict[str, str] = {}  # the orders of the render farm by ticket


@tool(long_running=True)
def render_video(title: str) -> dict[str, str]:
    """Order a video, which takes a while."""
    ticket = f"job-{len(FARM) + 1}"
    FARM[ticket] = title
    return {"ticket": ticket, "expected": "40 minutes"}


def report(prompt: ModelRequest) -> str:
    """Return the response of the model: the result of the tool."""
    return f"Your video is ready: {last_result(prompt)['url']}"


studio = Agent(
    name="studio",
    model=ScriptedModel(call("render_video", title="Spring launch"), report),
    tools=[render_video],
)


async def main() -> None:
    """Order a video, wait, and resume with the outcome."""
    runner = Runner(studio)
    ordered = await runner.run(user_id="u1", session_id="s1", message="Render the launch video")
    request = ordered.requests[0]
    ticket = request.arguments["ticket"]["ticket"]
    print(f"{ordered.status}: {request.message}\n  {request.kind}, {dict(request.arguments)}")
    assert ordered.status == "input_required" and FARM[ticket] == "Spring launch"

    error_code = ""
    try:  # a paused session accepts no message: resume or abandon it
        await runner.run(user_id="u1", session_id="s1", message="Are you done?")
    except AccError as error:
        error_code = error.code
        print(f"meanwhile: {error_code}")

    # Later, in the callback of the farm, which needs only the id of the request.
    outcome = {"url": f"https://video.example/{ticket}.mp4", "seconds": 42}
    done = await runner.resume(
        user_id="u1", session_id="s1", answers=[approve(request.id, value=outcome, by="farm")]
    )
    print(f"{done.status}: {done.text}")

    results = [event.result for event in done.events if event.kind is EventKind.TOOL_RESULT]
    assert error_code == "session_waiting"
    assert done.status == "completed" and done.text.endswith("/job-1.mp4")
    assert results[0] is not None and results[0].content == outcome
    assert len(FARM) == 1, "resume did not order it again"


if __name__ == "__main__":
    asyncio.run(main())
