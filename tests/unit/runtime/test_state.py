"""State of a run: values, changes in place, scopes."""

import math
from enum import Enum, IntEnum, StrEnum
from typing import Any

import pytest
from agent_support import WHO, Does, Writes, results, turn
from hypothesis import assume, given
from hypothesis import strategies as st

from acc import Agent, EventKind, RunContext, Runner, SequentialAgent, ToolContext, tool
from acc.application.runtime.state import State
from acc.domain.errors import StateNotStorable
from acc.domain.value_objects.session import Scope, scope_of
from acc.testing import ScriptedModel, call

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    # A new value per call, so that examples do not share it.
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
NOT_PLAIN = st.sampled_from(
    [b"bytes", {1, 2}, object(), 1j, math.nan, math.inf, -math.inf, print, Exception("x"), {3: "x"}]
)


class Colour(StrEnum):
    RED = "red"


class OldColour(str, Enum):  # noqa: UP042 - the old way to write a StrEnum, which people still use
    RED = "red"


class Size(IntEnum):
    BIG = 3


class Weight(float):
    pass


@given(PLAIN)
def test_json_values_round_trip(value: Any) -> None:
    state = State({})
    state["key"] = value
    assert state["key"] == value
    assert state.flush() == ({"key": value}, ())
    assert State(state.copy()).copy() == {"key": value}


@given(NOT_PLAIN, st.lists(st.sampled_from(["a", 0]), max_size=4))
def test_other_values_are_rejected_with_path(value: Any, way: list[str | int]) -> None:
    place = ""
    for step in reversed(way):
        value = {"a": value} if step == "a" else [value]
    for step in way:
        place += ".a" if step == "a" else "[0]"
    state = State({})
    with pytest.raises(StateNotStorable) as refused:
        state["key"] = value
    assert refused.value.key == f"key{place}"
    assert "key" not in state
    assert not state.pending


@pytest.mark.parametrize("key", ["", "  ", 3, None])
def test_key_must_be_non_empty_text(key: Any) -> None:
    with pytest.raises(StateNotStorable, match="a state key must be a non-empty str"):
        State({})[key] = "x"


def test_recursive_value_is_rejected() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(StateNotStorable, match="nested deeper than 64 levels"):
        State({})["key"] = endless


@pytest.mark.parametrize(
    ("value", "expected"),
    [(Colour.RED, "red"), (OldColour.RED, "red"), (Size.BIG, 3), (Weight(2.5), 2.5), ((1,), [1])],
)
def test_subclasses_are_stored_as_base_types(value: Any, expected: Any) -> None:
    state = State({})
    state["key"] = value
    found = state["key"]
    assert (type(found), found) == (type(expected), expected)


def test_written_value_is_copied() -> None:
    mine = ["a"]
    state = State({})
    state["list"] = mine
    mine.append("b")
    assert state["list"] == ["a"]


def test_read_returns_same_object_until_next_write() -> None:
    state = State({"list": ["a"]})
    first = state["list"]
    first.append("b")
    assert state["list"] is first
    state["list"] = ["c"]
    first.append("lost")
    assert state["list"] == ["c"]


def test_in_place_change_is_a_write() -> None:
    given = {"list": ["a"], "map": {"deep": {"n": 1}}}
    state = State(given)
    state["list"].append("b")
    state["map"]["deep"]["n"] = 2
    assert state.pending
    assert state.flush() == ({"list": ["a", "b"], "map": {"deep": {"n": 2}}}, ())
    assert given == {"list": ["a"], "map": {"deep": {"n": 1}}}
    assert state.flush() == ({}, ())


def test_reading_list_is_not_a_write() -> None:
    state = State({"list": ["a"]})
    assert state["list"] == ["a"]
    assert not state.pending


def test_removed_key_is_missing_until_written() -> None:
    state = State({"a": [1], "b": 2})
    assert state["a"] == [1]
    del state["a"]
    assert "a" not in state
    assert state.flush() == ({}, ("a",))
    del state["b"]
    state["b"] = 3
    assert state.flush() == ({"b": 3}, ())
    with pytest.raises(KeyError):
        del state["a"]


def test_in_place_change_of_removed_list_is_ignored() -> None:
    state = State({"a": [1]})
    stored = state["a"]
    del state["a"]
    stored.append(2)
    assert state.flush() == ({}, ("a",))


def test_state_is_a_mutable_mapping() -> None:
    state = State({"a": 1})
    state.setdefault("b", []).append(2)
    assert (len(state), list(state), state.get("c"), state.get("a")) == (2, ["a", "b"], None, 1)
    assert repr(state) == "State({'a': 1, 'b': [2]})"
    assert [state.pop(key) for key in state] == [1, [2]]


def test_rollback_restores_initial_state() -> None:
    start = {"a": 1, "b": [1], "c": 3}
    state = State(start)
    state["a"] = 2
    state["a"] = 3
    state["b"].append(2)
    del state["c"]
    state["new"] = 1
    state.flush()
    state.apply(*state.undo())
    assert state.copy() == start


def test_written_returns_all_changes() -> None:
    state = State({"a": 1, "b": 2, "c": [1]})
    state["a"] = 5
    state.flush()
    del state["b"]
    state["c"].append(2)
    assert state.written() == ({"a": 5, "c": [1, 2]}, ("b",))


def test_branch_state_is_independent() -> None:
    state = State({"list": ["a"]})
    state["list"].append("b")
    branch = state.branch()
    branch["list"].append("c")
    state["list"].append("d")
    assert branch.written() == ({"list": ["a", "b", "c"]}, ())
    assert state["list"] == ["a", "b", "d"]


def test_removing_missing_keys_is_ignored() -> None:
    state = State({"a": 1, "b": 2})
    state.write({"a": 3}, ("b", "never"))
    assert state.flush() == ({"a": 3}, ("b",))


def test_recorded_changes_replace_read_values() -> None:
    state = State({"a": [1], "b": [2]})
    assert (state["a"], state["b"]) == ([1], [2])
    state.apply({"a": [9]}, ("b", "never"))
    assert state.copy() == {"a": [9]}
    assert not state.pending


@given(TEXT)
def test_scopes_are_app_user_and_temp(rest: str) -> None:
    assert scope_of(f"app:{rest}") is Scope.APP
    assert scope_of(f"user:{rest}") is Scope.USER
    assert scope_of(f"temp:{rest}") is Scope.TEMP
    assume(":" not in rest)
    assert scope_of(rest) is Scope.SESSION
    assert scope_of(f"x:{rest}") is Scope.SESSION


async def test_scope_decides_visibility() -> None:
    keys = {"mine": 1, "user:name": 2, "app:tax": 3, "temp:draft": 4}
    runner = Runner(Does(name="a", do=lambda ctx: _write_once(ctx, keys)))
    first = await runner.run(user_id="ann", session_id="s1", message="write")
    assert first.state == keys
    seen = {
        (user, session): (await runner.run(user_id=user, session_id=session, message="read")).text
        for user, session in [("ann", "s1"), ("ann", "s2"), ("bob", "s1")]
    }
    assert seen == {
        ("ann", "s1"): "app:tax, mine, user:name",
        ("ann", "s2"): "app:tax, user:name",
        ("bob", "s1"): "app:tax",
    }


def _write_once(ctx: RunContext, values: dict[str, int]) -> str:
    found = ", ".join(sorted(ctx.state))
    if ctx.message == "write":
        ctx.state.update(values)
    return found


async def test_agents_share_the_state() -> None:
    def extend(ctx: RunContext) -> None:
        ctx.state["list"].append(ctx.agent.name)

    first = Writes(name="first", values={"list": ["begun"], "gone": 1})
    second = Does(name="second", do=extend)
    third = Does(name="third", do=lambda ctx: ctx.state.pop("gone"))
    result = await turn(SequentialAgent(name="s", sub_agents=[first, second, third]))
    assert result.state == {"list": ["begun", "second"]}
    assert result.text == "1"


async def test_unstorable_state_fails_the_run() -> None:
    def spoil(ctx: RunContext) -> None:
        ctx.state["list"] = [1]
        ctx.state["list"].append(object())

    runner = Runner(Does(name="a", do=spoil))
    with pytest.raises(StateNotStorable, match=r"list\[1\]"):
        await runner.run(**WHO, message="go")
    stored = await runner.events(**WHO)
    assert stored[-1].kind is EventKind.ENDED
    assert stored[-1].detail == {"code": "state_not_storable"}
    assert await runner.state(**WHO) == {}


async def test_changing_result_state_does_not_change_session() -> None:
    runner = Runner(Writes(name="a", values={"list": [1]}))
    result = await runner.run(**WHO, message="go")
    result.state["list"].append(2)
    assert await runner.state(**WHO) == {"list": [1]}


def test_recorded_changes_do_not_override_later_writes() -> None:
    state = State({"a": 1, "b": [2], "gone": 3})
    state["a"] = 10
    state.rebase({"a": 5, "b": [6], "c": 7}, ("gone", "never"), seq=4)
    assert (state.copy(), state.undo()) == (
        {"a": 10, "b": [6], "c": 7},
        ({"a": 1, "b": [2], "gone": 3}, ("c", "never")),
    )
    state.rollback()
    assert (state.copy(), state.pending) == ({"a": 5, "b": [6], "c": 7}, False)


def test_later_recorded_change_wins() -> None:
    state = State({})
    state.apply({"a": 2}, seq=2)
    state.apply({"a": 1}, seq=1)
    assert state.copy() == {"a": 2}


def test_replayed_step_applies_only_its_own_writes() -> None:
    state = State({"a": 1})
    state.is_complete = True
    state["a"], state["new"] = 2, 3
    state.apply({"a": 1}, seq=1)
    assert state.flush() == ({"new": 3}, ())
    assert state.copy() == {"a": 1, "new": 3}


@pytest.mark.parametrize(
    ("before", "after"), [(1, True), (0, False), (1, 1.0), (True, 1), (0.0, -0.0), (2.0, 2)]
)
def test_in_place_change_of_type_is_a_write(before: Any, after: Any) -> None:
    state = State({"all": {"list": [before], "other": "x"}})
    state["all"]["list"][0] = after
    assert repr(state.flush()) == repr(({"all": {"list": [after], "other": "x"}}, ()))
    assert repr(state.copy()) == repr({"all": {"list": [after], "other": "x"}})
    assert not state.pending
    state["all"]["list"][0] = before
    assert repr(state.flush()[0]) == repr({"all": {"list": [before], "other": "x"}})


def test_number_subclass_in_list_is_written_once() -> None:
    class Odd(int):
        pass

    state = State({"all": [1]})
    state["all"][0] = Odd(1)
    assert [type(item) for item in state.flush()[0]["all"]] == [int]
    assert not state.pending


@pytest.mark.parametrize("bad", [{1}, object(), "\ud800", 1j])
def test_unstorable_in_place_change_is_rejected(bad: Any) -> None:
    state = State({"all": [[1], "x"]})
    state["all"][0] = bad
    with pytest.raises(StateNotStorable, match=r"all\[0\]"):
        state.flush()


@pytest.mark.parametrize("bad", ["\ud800", ["a", "b\udfff"], {"\ud800": 1}, {"a": {"b": "\ud800"}}])
def test_unpaired_surrogate_is_rejected(bad: Any) -> None:
    state = State({})
    with pytest.raises(StateNotStorable, match="unpaired surrogate") as refused:
        state["key"] = bad
    assert str(refused.value).isascii()
    assert state.copy() == {}
    with pytest.raises(StateNotStorable, match="unpaired surrogate") as refused:
        state["\ud800"] = 1
    assert str(refused.value).isascii()


async def test_unpaired_surrogate_fails_only_the_tool() -> None:
    @tool
    def note(ctx: ToolContext) -> str:
        """Note."""
        ctx.state["note"] = "\ud800"
        return "noted"

    model = ScriptedModel(call("note"), "done")
    result = await turn(Agent(name="a", model=model, tools=[note], memory=None))
    assert (result.text, result.state) == ("done", {})
    assert "unpaired surrogate" in results(result)[0]["error"]
