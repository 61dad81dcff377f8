"""A plain function as an agent."""

import pytest

import acc


async def test_sync_and_async_functions_answer() -> None:
    def shout(message: str) -> str:
        return message.upper()

    async def whisper(message: str) -> str:
        return message.lower()

    assert (await acc.FunctionAgent(shout).run("Hello")).text == "HELLO"
    assert (await acc.FunctionAgent(whisper).run("Hello")).text == "hello"


async def test_function_gets_session_and_history_on_request() -> None:
    def recall(message: str, session_id: str, history: list[dict[str, str]]) -> str:
        earlier = [f"{one['role']} {one['content']}" for one in history]
        return f"{session_id}: {' | '.join(earlier)}"

    runner = acc.Runner(acc.FunctionAgent(recall))
    assert (await runner.run("こんにちは", session_id="s")).text == "s: "
    second = await runner.run("again", session_id="s")
    assert second.text == "s: user こんにちは | assistant s: "
    assert (await runner.run("hi", session_id="other")).text == "other: "


async def test_history_has_failed_turns_and_no_open_ones() -> None:
    def fail_once(message: str, history: list[dict[str, str]]) -> str:
        if message == "fail":
            raise ValueError("no")
        return str([entry["content"] for entry in history])

    runner = acc.Runner(acc.FunctionAgent(fail_once))
    with pytest.raises(acc.AgentFailed):
        await runner.run("fail")
    assert "This turn failed" in (await runner.run("go")).text


async def test_dict_of_a_function_is_json() -> None:
    def measure(message: str) -> dict[str, int]:
        return {"length": len(message)}

    assert (await acc.FunctionAgent(measure).run("four")).text == '{"length":4}'


def test_function_with_other_parameters_is_refused() -> None:
    def answer(message: str, database: object) -> str:
        return message

    with pytest.raises(acc.InvalidTree, match="session_id, user_id and history"):
        acc.FunctionAgent(answer)


def test_function_is_required() -> None:
    with pytest.raises(acc.InvalidTree, match="function must be"):
        acc.FunctionAgent(name="nothing")


async def test_function_works_in_a_tree() -> None:
    def first(message: str) -> str:
        return f"{message} one"

    def second(message: str) -> str:
        return f"{message} two"

    tree = acc.SequentialAgent(
        name="both", sub_agents=[acc.FunctionAgent(first), acc.FunctionAgent(second)]
    )
    assert (await acc.Runner(tree).run("go")).text == "go two"
