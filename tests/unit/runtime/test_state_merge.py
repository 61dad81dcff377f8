"""State views and the merging of branches."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import pytest
from agent_support import Does, Writes, turn

from acc import LoopAgent, ParallelAgent, RunContext
from acc.application.runtime.state import MISSING, MergeRule, State, StateView, merge_branches
from acc.domain.errors import InvalidInput, StateConflict, StateNotGranted, StateNotStorable


def test_view_shows_readable_keys() -> None:
    view = StateView(State({"doc_a": 1, "doc_b": 2, "secret": 3}), read=("doc_*",))
    assert dict(view) == {"doc_a": 1, "doc_b": 2}
    assert (len(view), "secret" in view, view.get("secret")) == (2, False, None)
    assert repr(view) == "StateView({'doc_a': 1, 'doc_b': 2})"
    with pytest.raises(KeyError):
        view["secret"]


def test_view_rejects_writes_that_are_not_granted() -> None:
    state = State({"in": 1, "out": 2})
    view = StateView(state, write=("out", "out_*"))
    view["out"] = 3
    view["out_2"] = 4
    del view["out_2"]
    with pytest.raises(StateNotGranted, match="'in' cannot be written.*write access to out, out_"):
        view["in"] = 5
    with pytest.raises(StateNotGranted, match="'in'"):
        del view["in"]
    with pytest.raises(StateNotGranted, match="write access to nothing"):
        StateView(state, write=())["out"] = 1
    assert state.flush() == ({"out": 3}, ("out_2",))


def test_read_only_value_is_a_copy() -> None:
    state = State({"in": [1], "out": [1]})
    view = StateView(state, write=("out",))
    view["in"].append(2)
    view["out"].append(2)
    assert state.copy() == {"in": [1], "out": [1, 2]}


def test_setdefault_through_view_is_mutable() -> None:
    state = State({})
    view = StateView(state, read=("list",), write=("list", "out"))
    view.setdefault("list", []).append(1)
    view.setdefault("list", []).append(2)
    assert view.setdefault("out", 3) == 3
    assert state.copy() == {"list": [1, 2], "out": 3}


def test_closed_view_is_read_only() -> None:
    state = State({"list": [1]})
    view = StateView(state)
    view.close()
    assert view["list"] == [1]
    view["list"].append(2)
    with pytest.raises(StateNotGranted, match="the call that it was granted to has ended"):
        view["a"] = 1
    assert state.copy() == {"list": [1]}


def test_nested_view_cannot_extend_access() -> None:
    state = State({"a": 1, "b": 2, "c": 3})
    inner = StateView(StateView(state, read=("a", "b"), write=("a",)), read=("b", "c"))
    assert dict(inner) == {"b": 2}
    with pytest.raises(StateNotGranted):
        inner["b"] = 1
    elsewhere = inner.over(State({"a": 10, "b": 20, "c": 30}))
    assert dict(elsewhere) == {"b": 20}
    with pytest.raises(StateNotGranted):
        elsewhere["b"] = 1


@pytest.mark.parametrize(
    ("rule", "before", "values", "expected"),
    [
        ("first", None, [1, 2], 1),
        ("last", None, [1, 2], 2),
        ("list", None, [1, [2]], [1, [2]]),
        ("sum", None, [1, 2], 3),
        ("sum", 10, [11, 13], 14),
        ("total", None, [3, 4], 7),
        ("total", 7, [3, 4], 7),
        ("union", None, [["a"], ["b", "a"]], ["a", "b"]),
        ("union", ["z"], [["z", "a"], ["z", "b"]], ["z", "a", "b"]),
        ("union", {"z": 0}, [{"z": 0, "a": 1}, {"z": 2}], {"z": 2, "a": 1}),
        (lambda before, values: [before, *values], "old", [1, 2], ["old", 1, 2]),
    ],
)
def test_merge_rules_combine_branch_writes(
    rule: MergeRule, before: Any, values: list[Any], expected: Any
) -> None:
    state = {} if before is None else {"key": before}
    wrote = [(f"b{n}", ({"key": value}, ())) for n, value in enumerate(values)]
    assert merge_branches(state, wrote, {"key": rule}) == ({"key": expected}, ())


@pytest.mark.parametrize(
    ("rule", "values", "fault"),
    [
        ("sum", ["a", "b"], "by 'sum'"),
        ("total", ["a", 1], "by 'total'"),
        ("union", [1, [2]], "union expects lists or mappings"),
    ],
)
def test_merge_rule_rejects_incompatible_values(rule: str, values: list[Any], fault: str) -> None:
    wrote = [(f"b{n}", ({"key": value}, ())) for n, value in enumerate(values)]
    with pytest.raises(InvalidInput, match=f"cannot merge 'key'.*{fault}"):
        merge_branches({}, wrote, {"key": cast(Any, rule)})


def test_conflict_error_names_both_branches() -> None:
    wrote = [("left", ({"key": 1}, ())), ("middle", ({}, ())), ("right", ({"key": 1}, ()))]
    with pytest.raises(StateConflict, match="'key' was written by left and right") as conflict:
        merge_branches({}, wrote, {"other": "last"})
    assert (conflict.value.key, conflict.value.branches) == ("key", ("left", "right"))
    with pytest.raises(StateConflict):
        merge_branches({}, wrote, {"key": "error", "*": "last"})


def test_exact_rule_precedes_pattern_rule() -> None:
    wrote = [("a", ({"n_1": 1, "n_2": 1}, ())), ("b", ({"n_1": 2, "n_2": 2}, ()))]
    rules: Mapping[str, MergeRule] = {"n_*": "last", "n_1": "first"}
    assert merge_branches({}, wrote, rules) == ({"n_1": 1, "n_2": 2}, ())


def test_removal_and_write_need_a_rule() -> None:
    wrote: Sequence[Any] = [("a", ({}, ("key",))), ("b", ({"key": 2}, ()))]
    with pytest.raises(StateConflict, match="a and b"):
        merge_branches({"key": 1}, wrote, {})
    assert merge_branches({"key": 1}, wrote, {"key": "last"}) == ({"key": 2}, ())


@pytest.mark.parametrize(
    ("rule", "before", "values", "stored"),
    [
        ("first", 1, [MISSING, 5], MISSING),
        ("first", 1, [5, MISSING], 5),
        ("last", 1, [5, MISSING], MISSING),
        ("last", 1, [MISSING, 5], 5),
        ("list", 1, [MISSING, 5, 6], [5, 6]),
        ("sum", 10, [MISSING, 11], 1),
        ("total", 10, [MISSING, 3, 4], 7),
        ("union", ["z"], [["z", "a"], MISSING], ["a"]),
        ("union", {"z": 0}, [MISSING, {"z": 0, "a": 1}], {"a": 1}),
        (lambda before, values: [before, *values], 1, [5, MISSING], [1, 5, None]),
    ],
)
def test_merge_rule_receives_removals(
    rule: MergeRule, before: Any, values: list[Any], stored: Any
) -> None:
    wrote: Sequence[Any] = [
        (f"b{n}", ({}, ("key",)) if value is MISSING else ({"key": value}, ()))
        for n, value in enumerate(values)
    ]
    expected = ({}, ("key",)) if stored is MISSING else ({"key": stored}, ())
    assert merge_branches({"key": before}, wrote, {"key": rule}) == expected


@pytest.mark.parametrize(
    ("before", "values", "expected"),
    [
        ({"a": 1}, [{}, {"a": 1, "b": 2}], {"b": 2}),
        ({"a": 1}, [{"a": 5}, {"a": 1, "b": 2}], {"a": 5, "b": 2}),
        ({"a": 1}, [{"a": True}, {"a": 1}], {"a": True}),
        ({"a": 1}, [{}, {"a": 5}], {"a": 5}),
        (["a", "b"], [["b"], ["a", "b", "c", "c"]], ["b", "c"]),
        (["a", "a"], [["a", "a"], ["a"]], ["a"]),
        (["old"], [["x"], ["y"]], ["old", "x", "y"]),
        (["old"], [["x"], []], ["x"]),
        ({"old": 1}, [{"x": 1}, {"y": 2}], {"old": 1, "x": 1, "y": 2}),
    ],
)
def test_union_combines_changes_of_branches(before: Any, values: list[Any], expected: Any) -> None:
    wrote = [(f"b{n}", ({"key": value}, ())) for n, value in enumerate(values)]
    assert merge_branches({"key": before}, wrote, {"key": "union"}) == ({"key": expected}, ())


async def test_key_created_and_removed_in_branches_is_ignored() -> None:
    async def make_and_remove(ctx: RunContext) -> None:
        ctx.state["own"] = 1
        await ctx.say("made")
        del ctx.state["own"]

    branches = [Does(name=name, do=make_and_remove) for name in ("a", "b")]
    assert (await turn(ParallelAgent(name="p", sub_agents=branches))).state == {}
    branches.append(Does(name="c", do=lambda ctx: ctx.state.update(own=2)))
    agents = [Does(name=one.name, do=one.do) for one in branches]
    assert (await turn(ParallelAgent(name="p", sub_agents=agents))).state == {"own": 2}


def test_key_removed_in_branches_is_removed() -> None:
    one = [("a", ({}, ("key",))), ("b", ({"other": 1}, ()))]
    assert merge_branches({"key": 1}, one, {}) == ({"other": 1}, ("key",))
    both: Sequence[Any] = [("a", ({}, ("key",))), ("b", ({}, ("key",)))]
    assert merge_branches({"key": 1}, both, {"key": "list"}) == ({}, ("key",))


async def test_branches_use_merge_rules_of_parent() -> None:
    branches = [Writes(name=f"b{n}", values={"found": [n], "n": n, f"own_{n}": n}) for n in (1, 2)]
    agent = ParallelAgent(name="p", sub_agents=branches, merge={"found": "union", "*": "sum"})
    assert (await turn(agent)).state == {"found": [1, 2], "n": 3, "own_1": 1, "own_2": 2}


async def test_sum_and_total_apply_in_each_round() -> None:
    def score(points: int) -> Callable[[RunContext], None]:
        def write(ctx: RunContext) -> None:
            ctx.state["count"] = ctx.state.get("count", 0) + points
            ctx.state["score"] = points

        return write

    branches = [Does(name="x", do=score(3)), Does(name="y", do=score(4))]
    merge: Mapping[str, MergeRule] = {"count": "sum", "score": "total"}
    both = ParallelAgent(name="both", sub_agents=branches, merge=merge)
    result = await turn(LoopAgent(name="loop", sub_agents=[both], max_iterations=3))
    assert result.state == {"count": 21, "score": 7}


async def test_conflicting_writes_fail_the_run() -> None:
    branches = [Writes(name=f"b{n}", values={"key": n}) for n in (1, 2)]
    with pytest.raises(StateConflict, match="written by b1 and b2.*merge="):
        await turn(ParallelAgent(name="p", sub_agents=branches))


async def test_merge_function_must_return_storable_value() -> None:
    branches = [Writes(name=f"b{n}", values={"key": n}) for n in (1, 2)]
    with pytest.raises(StateNotStorable, match="set is not"):
        await turn(
            ParallelAgent(name="p", sub_agents=branches, merge={"key": lambda _, all_: set(all_)})
        )


async def test_branch_removal_applies_after_merge() -> None:
    def remove(ctx: RunContext) -> None:
        del ctx.state["key"]

    def begin(ctx: RunContext) -> None:
        ctx.state["key"] = 1

    branches = [Does(name="a", do=remove), Does(name="b", do=lambda ctx: "key" in ctx.state)]
    agent = ParallelAgent(name="p", sub_agents=branches, before_agent_callback=begin)
    result = await turn(agent)
    assert (result.text, result.state) == ("a: a done\nb: True", {})
