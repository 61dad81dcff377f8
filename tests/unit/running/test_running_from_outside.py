"""What can be done with a session from outside a run."""

from acc import Agent, BaseAgent, EventKind, RunContext, Runner
from acc.testing import ScriptedModel


class Writer(BaseAgent):
    async def run(self, ctx: RunContext) -> str:
        await ctx.artifacts.save("note.txt", f"for {ctx.state['who']}")
        return "written"


async def test_state_can_be_given_before_the_first_message() -> None:
    model = ScriptedModel("hello")
    runner = Runner(Agent(name="a", model=model, instruction="Greet {user:name}."))
    values = {"user:name": "Mio", "visits": [1]}
    await runner.update_state(values, user_id="u", session_id="s")
    assert await runner.state(user_id="u", session_id="s") == values
    result = await runner.run(user_id="u", session_id="s", message="hi")
    assert model.asked[0].instruction == "Greet Mio."
    assert [event.seq for event in result.events] == [2, 3, 4]
    assert (await runner.events(user_id="u", session_id="s"))[0].kind is EventKind.STATE


async def test_files_can_be_read_from_outside() -> None:
    runner = Runner(Writer(name="w"))
    await runner.update_state({"who": "you"}, user_id="u", session_id="s")
    await runner.run(user_id="u", session_id="s", message="write")
    stored = await runner.load_artifact("note.txt", user_id="u", session_id="s")
    assert stored is not None
    assert (stored.text, stored.version) == ("for you", 1)
    assert await runner.load_artifact("none", user_id="u", session_id="s") is None


async def test_a_result_tells_who_answered() -> None:
    runner = Runner(Agent(name="a", model=ScriptedModel("hello")))
    result = await runner.run(user_id="u", session_id="s", message="hi")
    assert result.answered_by == "a"
