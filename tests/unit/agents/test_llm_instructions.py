"""Instructions with placeholders, and instruction functions."""

from typing import Any

import pytest
from agent_support import Does, Writes, turn

from acc import Agent, InvalidTree, RunContext, Runner, SequentialAgent
from acc.application.agents.instructions import placeholders
from acc.domain.errors import AgentFailed, InvalidInput, StateMissing
from acc.testing import ScriptedModel, call


async def resolved(instruction: Any, **state: Any) -> str:
    """Return the instruction as a model sees it, given that state."""
    model = ScriptedModel("ok")
    writer = Writes(name="writer", values={key.replace("__", ":"): v for key, v in state.items()})
    agent = Agent(name="a", model=model, instruction=instruction, memory=None)
    await turn(SequentialAgent(name="s", sub_agents=[writer, agent]))
    return model.requests[0].instruction


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("Write to {email}.", "Write to ann@example.org."),
        ("{email}{email}", "ann@example.organn@example.org"),
        ("For {user:name}, tax {app:tax}, {temp:draft}", "For Ann, tax 0.2, [1,2]"),
        ("Map {map}, {yes}, {nothing}", 'Map {"a":"ä"}, true, null'),
        ("{absent?}-{user:absent?}", "-"),
        ("{名前}さん", "花子さん"),
        ("JSON like {{email}} stays", "JSON like {email} stays"),
        (
            '{"key": 1} and { spaced } and {1} and {a-b}',
            '{"key": 1} and { spaced } and {1} and {a-b}',
        ),
        ("}}", "}}"),
        ('{"a": {"b": 1}}', '{"a": {"b": 1}}'),
        ("f(){ return {x:1}}", "f(){ return {x:1}}"),
        ('{{"a": {{"b": "{email}"}}}}', '{"a": {"b": "ann@example.org"}}'),
        ('{"to": {email}} {{x}} }}', '{"to": ann@example.org} {x} }}'),
        ("no braces", "no braces"),
    ],
)
async def test_placeholders_are_replaced_from_state(instruction: str, expected: str) -> None:
    found = await resolved(
        instruction,
        email="ann@example.org",
        user__name="Ann",
        app__tax=0.2,
        temp__draft=[1, 2],
        map={"a": "ä"},
        yes=True,
        nothing=None,
        名前="花子",
    )
    assert found == expected


async def test_placeholder_values_are_not_expanded() -> None:
    assert await resolved("Say {word}", word="{secret}", secret="x") == "Say {secret}"


async def test_missing_key_error_lists_existing_keys() -> None:
    with pytest.raises(StateMissing, match=r"'a' refers to \{emial\}.*available keys: email"):
        await resolved("To {emial}", email="x")
    with pytest.raises(StateMissing, match="available keys: none"):
        await turn(Agent(name="a", model=ScriptedModel("x"), instruction="{key}"))


async def test_artifact_placeholders_are_replaced() -> None:
    model = ScriptedModel("ok")

    async def save(ctx: RunContext) -> None:
        await ctx.artifacts.save("notes.md", "old")
        await ctx.artifacts.save("notes.md", "new")

    text = "{artifact.notes.md} {artifact.other.md?}|"
    agent = Agent(name="a", model=model, instruction=text, memory=None)
    await turn(SequentialAgent(name="s", sub_agents=[Does(name="w", do=save), agent]))
    assert model.requests[0].instruction == "new |"


async def test_missing_artifact_raises_state_missing() -> None:
    agent = Agent(name="a", model=ScriptedModel("x"), instruction="{artifact.notes.md}")
    with pytest.raises(StateMissing, match=r"\{artifact\.notes\.md\}"):
        await turn(agent)


async def test_binary_artifact_placeholder_is_rejected() -> None:
    async def save(ctx: RunContext) -> None:
        await ctx.artifacts.save("photo.png", b"\x89PNG", media_type="image/png")

    agent = Agent(name="a", model=ScriptedModel("x"), instruction="See {artifact.photo.png}")
    with pytest.raises(InvalidInput, match=r"\{artifact.photo.png\} .* image/png"):
        await turn(SequentialAgent(name="s", sub_agents=[Does(name="w", do=save), agent]))


async def test_instruction_function_must_return_text() -> None:
    with pytest.raises(AgentFailed, match="returned NoneType; expected str"):
        await resolved(lambda ctx: None)


async def test_instruction_may_be_async_function() -> None:
    async def slowly(ctx: RunContext) -> str:
        return f"Be kind to {ctx.user_id}, {{not a placeholder}}"

    assert await resolved(slowly) == "Be kind to ann, {not a placeholder}"
    assert await resolved(lambda ctx: f"{len(ctx.state)} keys", a=1, b=2) == "2 keys"


async def test_failing_instruction_function_fails_the_agent() -> None:
    with pytest.raises(AgentFailed, match="agent 'a' failed: ZeroDivisionError"):
        await resolved(lambda ctx: 1 // 0)


async def test_instruction_is_rendered_for_each_turn() -> None:
    model = ScriptedModel("x", repeat=True)
    agent = Agent(name="a", model=model, instruction="{n?}", output_key="n", memory=None)
    runner = Runner(agent)
    for _ in range(2):
        await runner.run(user_id="ann", session_id="s1", message="go")
    assert [prompt.instruction for prompt in model.requests] == ["", "x"]


def test_placeholders_lists_keys_of_instruction() -> None:
    found = placeholders("{a} {user:b?} {{c}} {artifact.d} {a}")
    assert found == (("a", False), ("user:b", True), ("a", False))
    assert placeholders("none") == placeholders(lambda ctx: "{a}") == ()


async def test_global_instruction_of_root_precedes_the_instruction_of_every_agent() -> None:
    helper, writer = ScriptedModel("ok"), ScriptedModel("ok")
    boss = ScriptedModel(call("helper", request="x"), "ok")
    tree = SequentialAgent(
        name="s",
        global_instruction="Answer {user:name} in 日本語.",
        sub_agents=[
            Writes(name="w", values={"user:name": "Ann", "topic": "tea"}),
            Agent(
                name="boss",
                model=boss,
                instruction="Use {topic}.",
                tools=[Agent(name="helper", description="Helps.", model=helper, instruction="Go.")],
            ),
            Agent(name="writer", model=writer),
        ],
    )
    await turn(tree)
    shown = [model.requests[0].instruction for model in (boss, helper, writer)]
    general = "Answer Ann in 日本語."
    assert shown == [f"{general}\n\nUse tea.", f"{general}\n\nGo.", general]


async def test_global_instruction_applies_to_an_agent_that_keeps_the_conversation() -> None:
    model = ScriptedModel("first", "second")
    target = Agent(name="target", description="Answers.", model=model, instruction="Be brief.")
    boss = ScriptedModel(call("transfer_to_agent", agent_name="target"))

    def general(ctx: RunContext) -> str:
        return f"Rules for {ctx.agent.name}."

    root = Agent(name="root", model=boss, global_instruction=general, sub_agents=[target])
    runner = Runner(root)
    for message in ("one", "two"):
        await runner.run(user_id="u", session_id="s", message=message)
    assert [request.instruction for request in model.requests] == [
        "Rules for target.\n\nBe brief."
    ] * 2


def test_global_instruction_below_the_root_is_rejected() -> None:
    def general(name: str) -> Agent:
        return Agent(name=name, description="Works.", global_instruction="Be polite.")

    with pytest.raises(InvalidTree, match=r"'a' has a global_instruction and is used by 's'"):
        SequentialAgent(name="s", sub_agents=[general("a")])
    with pytest.raises(InvalidTree, match=r"'a' has a global_instruction and is used by 'b'"):
        Agent(name="b", tools=[general("a")])


def test_global_instruction_of_another_type_is_rejected() -> None:
    wrong: Any = 3
    with pytest.raises(InvalidTree, match="global_instruction must be a text or a function"):
        Agent(name="a", global_instruction=wrong)
