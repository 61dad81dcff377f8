"""Any agent of acc takes part in the live evaluation, and is the same there as anywhere."""

import re
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import agents_under_test
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acc.adapters.reports.run_directory import EvaluationDirectory
from acc.application.use_cases.live_multi_agent_evaluation import LiveMultiAgentEvaluationUseCase
from acc.bootstrap.evaluation import make_agent, make_evaluation, scenario_library
from acc.bootstrap.memory import token_counter
from acc.cli.eval import configure
from acc.cli.eval_options import EvaluationOptions
from acc.domain.errors import InvalidInput, InvalidTree
from acc.domain.value_objects.live_evaluation import AgentTurnResponse, TurnResult
from acc.ports.outbound.live_evaluation_ports import AgentRunnerPort
from acc.testing import ScriptedJudge, queries

token_counter()  # loading the vocabulary must not count as time of an agent


def python_agent(name: str, **sizes: Any) -> AgentRunnerPort:
    return make_agent("mine", f"python:agents_under_test:{name}", **sizes)


async def episode(*agents: AgentRunnerPort, texts: tuple[str, ...]) -> list[TurnResult]:
    use_case = LiveMultiAgentEvaluationUseCase(
        agents=agents, judge=ScriptedJudge(), agent_timeout=1.0
    )
    return [turn async for turn in use_case.turns(queries(*texts))]


async def answers(agent: AgentRunnerPort, *texts: str) -> list[AgentTurnResponse]:
    return [turn.responses[0] for turn in await episode(agent, texts=texts)]


async def test_agent_tree_answers_like_the_built_in_agent() -> None:
    texts = [turn.query for turn in scenario_library().render("it-operations", 3).turns]
    built_in, own = make_agent("ours", "baseline"), python_agent("transcript")
    for query in queries(*texts):
        expected = await built_in.run_turn(query, {})
        replies = await own.run_turn(query, {})
        assert replies.response_text == expected.response_text
        assert replies.memory_tokens == expected.memory_tokens
    assert len(texts) == 50


async def test_memory_of_a_tree_has_the_sizes_of_the_evaluation() -> None:
    texts = [turn.query for turn in scenario_library().render("it-operations", 0).turns[:20]]
    built_in, own = make_agent("ours", "acc", budget=128), python_agent("lone", budget=128)
    for query in queries(*texts):
        expected = await built_in.run_turn(query, {})
        assert ((await own.run_turn(query, {})).memory_tokens or 0) <= 128
        assert (expected.memory_tokens or 0) <= 128


async def test_trace_of_a_tree_lists_agents_and_tool_calls() -> None:
    replies = await answers(python_agent("tree"), "Who leads the incident?", "The sky is blue.")
    assert replies[0].response_text == "The lead is Mara."
    assert replies[0].trace["agents"] == ["clerk", "speaker"]
    called = ['clerk: find_lead {"question":"Who leads the incident?"}']
    assert replies[0].trace["tools"] == called
    assert "ccs" in replies[0].trace
    assert replies[1].trace["agents"] == ["other"]
    assert "tools" not in replies[1].trace


async def test_agent_without_memory_reports_no_tokens() -> None:
    (replies,) = await answers(python_agent("Echo"), "Hello.")
    assert replies.response_text == "echo: Hello."
    assert replies.memory_tokens is None


async def test_function_from_query_to_answer_is_an_agent() -> None:
    (replies,) = await answers(python_agent("answer"), "Hello.")
    assert replies.response_text == "heard: Hello."


async def test_turn_after_failed_turns_continues_the_conversation() -> None:
    replies = await answers(python_agent("moody"), "one", "break", "sleep", "four")
    assert [bool(response.error) for response in replies] == [False, True, True, False]
    assert replies[1].error == "model_failed: /moody: ConnectionError: the line is dead"
    assert "no answer within" in replies[2].error
    assert replies[3].response_text == "3 earlier, now: four"


async def test_run_that_requires_input_is_a_failed_turn() -> None:
    texts = ("Send the report to ann@example.org.", "The lead is Bo. Who is the lead?")
    replies = await answers(python_agent("asks_a_person"), *texts)
    assert replies[0].error == "input_required: the agent requires input: May it be sent?"
    assert replies[1].response_text == "The lead is Bo."


async def test_rejected_run_is_a_failed_turn_with_its_reason() -> None:
    replies = await answers(python_agent("Choosy"), "Pay the bill.", "Hello.")
    assert replies[0].error == "rejected: choosy: not my job"
    assert replies[1].response_text == "echo: Hello."


async def test_agent_that_blocks_the_event_loop_times_out() -> None:
    replies = await answers(python_agent("Sleepy"), "Sleep.", "Hello.")
    assert replies[0].error == "no answer within 1.0 s"
    assert replies[1].response_text == "echo: Hello."


def test_import_error_names_file_and_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fails_at_import.py").write_text("\nraise RuntimeError('at import')\n")
    (tmp_path / "no_python.py").write_text("x = (\n")
    (tmp_path / "no_tree.py").write_text("import acc\nx = acc.Agent(name='1')\n")
    monkeypatch.syspath_prepend(tmp_path)
    place = re.escape(f"({tmp_path / 'fails_at_import.py'}, line 2)")
    with pytest.raises(InvalidInput, match=f"'fails_at_import': RuntimeError: at import {place}"):
        make_agent("mine", "python:fails_at_import:x")
    with pytest.raises(InvalidInput, match=r"SyntaxError: .*no_python.py, line 1"):
        make_agent("mine", "python:no_python:x")
    with pytest.raises(InvalidTree, match="valid name for an agent"):
        make_agent("mine", "python:no_tree:x")


async def test_every_episode_starts_with_an_empty_session() -> None:
    for _ in range(2):
        replies = await answers(python_agent("moody"), "one", "two")
        assert [r.response_text for r in replies] == ["0 earlier, now: one", "1 earlier, now: two"]


def test_memory_object_shared_by_episodes_is_rejected() -> None:
    with pytest.raises(InvalidInput, match="memory of 'assistant' would be shared"):
        python_agent("shared_memory")


def test_object_that_is_no_agent_is_rejected() -> None:
    with pytest.raises(InvalidInput, match="must be an agent"):
        python_agent("none")


TEXTS = ("The lead is Bo.", "break the rule", "sleep well", "Keep it short.", "Who is the lead?")


async def continued(name: str, whole: list[TurnResult]) -> list[TurnResult]:
    use_case = LiveMultiAgentEvaluationUseCase(agents=[python_agent(name)], judge=ScriptedJudge())
    return [turn async for turn in use_case.turns(queries(*TEXTS), earlier=whole[:4])]


@pytest.mark.parametrize("name", ["moody", "moody_acc"])
async def test_single_agent_is_replayed_without_calling_its_model(name: str) -> None:
    whole = await episode(python_agent(name), texts=TEXTS)
    assert [bool(turn.responses[0].error) for turn in whole] == [False, True, True, False, False]
    before = agents_under_test.mood.calls
    replies = await continued(name, whole)
    assert agents_under_test.mood.calls == before + 1
    assert [turn.responses for turn in replies] == [whole[4].responses]


async def test_tree_repeats_recorded_turns_except_timeouts() -> None:
    whole = await episode(python_agent("moody_pair"), texts=TEXTS)
    assert [bool(turn.responses[0].error) for turn in whole] == [False, True, True, False, False]
    replies = await continued("moody_pair", whole)
    assert [turn.responses for turn in replies] == [whole[4].responses]


AGENTS = "acc,lone=python:agents_under_test:lone,tree=python:agents_under_test:tree"
OPTIONS = EvaluationOptions(scenario="it-operations", episodes=1, turns=8, agents=AGENTS)


def run_all(folder: Path) -> EvaluationDirectory:
    run = EvaluationDirectory.create(folder, configure(OPTIONS))
    evaluation = make_evaluation(run)
    list(evaluation.run(run.jobs()))
    assert evaluation.outcome.errors == {}
    return run


@lru_cache(maxsize=1)
def whole_run() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        run = run_all(Path(folder) / "run")
        return run.journal(run.jobs()[0]).path.read_bytes()


@settings(max_examples=10, deadline=None)
@given(st.floats(0, 1))
def test_run_truncated_at_any_byte_continues_to_the_same_bytes(share: float) -> None:
    whole = whole_run()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "run"
        run = EvaluationDirectory.create(folder, configure(OPTIONS))
        journal = run.journal(run.jobs()[0])
        journal.path.write_bytes(whole[: int(share * len(whole))])
        assert run_all(folder).journal(run.jobs()[0]).path.read_bytes() == whole
