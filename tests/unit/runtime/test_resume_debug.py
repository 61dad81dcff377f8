"""A run in debug mode stays in debug mode after a crash."""

from runner_harness import Crash, PaymentTool, Storage

from acc import Agent, CallContext, RunConfig, ToolCall
from acc.contracts import INTENTS_EXTENSION
from acc.testing import ScriptedModel, last_result

ASKED = CallContext(
    request_id="r",
    trace_id="t",
    caller="agent://dev",
    permissions=["debug"],
    metadata={INTENTS_EXTENSION: {"context": {"debug_mode": True}}},
)


async def test_interrupted_run_continues_in_debug_mode(storage: Storage, crash: Crash) -> None:
    payment = PaymentTool()

    def respond(prompt: object) -> ToolCall | str:
        if getattr(prompt, "following", ()):
            return str(last_result(prompt))  # type: ignore[arg-type]
        crash.now()
        return ToolCall(id="1", name="pay", arguments={"amount": 5})

    model = ScriptedModel(respond, repeat=True)
    agent = Agent(name="desk", model=model, tools=[payment.tool(confirm=False)])
    for options in ({"context": ASKED}, {"config": RunConfig(debug=True)}):
        await storage.harness(agent).say("pay", session=str(len(crash.snapshots)), **options)
        session = str(len(crash.snapshots) - 1)
        died = crash.snapshots[-1].harness(agent)
        result = await died.answer(session=session)
        assert result.text.startswith("[debug] pay would be called")
    assert payment.paid == []
