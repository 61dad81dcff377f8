"""An evaluation on disk: resumption after any cut, records, locks and storage errors."""

import json
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from acc.adapters.reports.run_directory import EvaluationDirectory
from acc.adapters.reports.run_list import RunFolder
from acc.adapters.reports.turn_records import (
    apply_changes,
    decode_turn,
    diff_mappings,
    encode_turn,
    evaluation_record,
    result_from_record,
)
from acc.bootstrap import evaluation as bootstrap
from acc.cli.eval import configure
from acc.cli.eval_options import EvaluationOptions
from acc.domain.errors import InvalidInput, NotFound, RunDamaged, StorageFailed
from acc.domain.value_objects.evaluation_run import EpisodeEnd
from acc.domain.value_objects.live_evaluation import TurnResult

KEYS = st.text(max_size=4)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
MEMORIES = st.dictionaries(KEYS, PLAIN, max_size=5)


@given(MEMORIES, MEMORIES)
@example({"a": False}, {"a": 0})
@example({"a": 1}, {"a": 1.0})
@example({"a": [0, {"b": 1, "c": 2}]}, {"a": [False, {"c": 2, "b": 1}]})
@example({"a": {"b": 1, "c": 2}}, {"a": {"c": 2, "b": 1}})
def test_applied_changes_reproduce_the_later_memory(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    changes = diff_mappings(before, after)
    assert json.dumps(apply_changes(before, changes)) == json.dumps(after), "in the same order, too"
    assert diff_mappings(after, after) == []


def run_all(folder: Path, *, turns: int = 5) -> EvaluationDirectory:
    options = EvaluationOptions(scenario="it-operations", episodes=1, turns=turns)
    run = EvaluationDirectory.create(folder, configure(options))
    evaluation = bootstrap.make_evaluation(run)
    list(evaluation.run(run.jobs()))
    assert evaluation.outcome.errors == {}
    return run


@lru_cache(maxsize=1)
def whole_run() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        run = run_all(Path(folder) / "run")
        return run.journal(run.jobs()[0]).path.read_bytes()


@settings(max_examples=15, deadline=None)
@given(st.floats(0, 1))
def test_run_truncated_at_any_byte_continues_to_the_same_bytes(share: float) -> None:
    whole = whole_run()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "run"
        options = EvaluationOptions(scenario="it-operations", episodes=1, turns=5)
        run = EvaluationDirectory.create(folder, configure(options))
        journal = run.journal(run.jobs()[0])
        journal.path.write_bytes(whole[: int(share * len(whole))])
        assert run_all(folder).journal(run.jobs()[0]).path.read_bytes() == whole


def test_journal_line_round_trips() -> None:
    memory: dict[str, object] = {}
    for raw in whole_run().splitlines(keepends=True):
        line = decode_turn(raw)
        assert encode_turn(line) == raw
        result: TurnResult = result_from_record(line, memory)
        memory = dict(result.canonical_memory)
        assert [evaluation_record(line.turn, agent) for agent in line.agents] == list(
            result.records
        )


def test_finished_evaluation_calls_no_agent(tmp_path: Path) -> None:
    run = run_all(tmp_path / "run")
    events = list(bootstrap.make_evaluation(run).run(run.jobs()))
    assert [type(event) for event in events] == [EpisodeEnd]


def test_turn_out_of_order_raises(tmp_path: Path) -> None:
    run = run_all(tmp_path / "run", turns=3)
    journal = run.journal(run.jobs()[0])
    lines = journal.path.read_bytes().splitlines(keepends=True)
    journal.path.write_bytes(lines[0] + lines[2])
    with pytest.raises(RunDamaged, match="line 2: contains turn 3"):
        journal.read()


def test_missing_directory_raises_on_write(tmp_path: Path) -> None:
    run = run_all(tmp_path / "run", turns=1)
    gone = EvaluationDirectory(tmp_path / "gone", run.configuration)
    with pytest.raises(StorageFailed, match="cannot write to .*gone"), gone.locked():
        pass
    with pytest.raises(StorageFailed, match="summary.json: .*; earlier turns are safe"):
        gone.write("summary.json", b"{}")
    with (
        pytest.raises(StorageFailed, match="cannot write"),
        gone.journal(run.jobs()[0]).appending(),
    ):
        pass


def test_unpaired_surrogate_in_query_becomes_question_mark() -> None:
    line = decode_turn(whole_run().splitlines(keepends=True)[0])
    odd = msgspec.structs.replace(line, query="half \ud800 pair")
    assert decode_turn(encode_turn(odd)).query == "half ? pair"


def test_second_lock_of_a_run_is_rejected(tmp_path: Path) -> None:
    run = run_all(tmp_path / "run", turns=1)
    with run.locked(), pytest.raises(InvalidInput, match="another process"), run.locked():
        pass


@pytest.mark.parametrize("name", ["", "..", "../run", "a\0b", "a" * 300])
def test_name_that_no_run_has_is_not_found(tmp_path: Path, name: str) -> None:
    folder = RunFolder(tmp_path, scenario_turns=lambda _: 0)
    with pytest.raises(NotFound, match="no such evaluation run"):
        folder.progress(name)
