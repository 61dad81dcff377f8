"""Replays of recorded conversations: proposals, decisions and what counts."""

import io
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acc.adapters.evaluation.recorded_scenarios import (
    REPLAY_REFERENCE,
    ReplayLibrary,
    annotation_text,
    read_annotations,
    scenario_ids,
)
from acc.application.evaluation.proposals import propose_annotations, values_in
from acc.bootstrap.memory import make_reader
from acc.bootstrap.reports import open_runs
from acc.cli import execute
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.format_rule import FormatRule, RuleKind
from acc.domain.value_objects.proposal import (
    Decision,
    Proposal,
    ProposalKind,
    ProposedConversation,
    ProposedTurn,
)
from acc.domain.value_objects.recorded_conversation import RecordedConversation, RecordedMessage

LOGS = Path(__file__).parent / "logs"
LANGUAGES = ("en", "ja")
OPTIONS = ("--agents", "full", "--workers", "1", "--quiet")


def log(*texts: str) -> RecordedConversation:
    messages = tuple(RecordedMessage(id=str(n), text=text) for n, text in enumerate(texts))
    return RecordedConversation(id="c", messages=messages, questions=())


async def kinds(*texts: str) -> list[list[ProposalKind]]:
    proposed = await propose_annotations(log(*texts), make_reader())
    found = {turn.turn: [one.kind for one in turn.proposals] for turn in proposed.turns}
    return [found.get(number, []) for number in range(1, len(texts) + 1)]


@pytest.mark.parametrize(
    "texts",
    [
        (
            "Keep every answer under 40 words.",
            "From now on, keep all answers under 20 words.",
            "The word limit no longer applies.",
        ),
        (
            "回答は必ず60字以内にしてください。",
            "今後は回答を40字以内にしてください。",
            "40字以内という制限はなしにしてください。",
        ),
    ],
)
async def test_rules_are_proposed_through_change_and_lift(texts: Sequence[str]) -> None:
    first, second, third = await kinds(*texts)
    assert first == [ProposalKind.RULE]
    assert second == [ProposalKind.CHANGED_RULE]
    assert third == [ProposalKind.LIFTED_RULE]


@pytest.mark.parametrize("language", LANGUAGES)
def test_facts_and_expected_answers_are_proposed(language: str, tmp_path: Path) -> None:
    out = tmp_path / "a.toml"
    assert execute(["eval", "propose", str(LOGS / f"openai-{language}.json"), "-o", str(out)]) == 0
    (conversation,) = read_annotations(out)
    *_, last = conversation.turns
    changed, expected = last.proposals
    assert (changed.kind, expected.kind) == (ProposalKind.CHANGED_FACT, ProposalKind.EXPECT)
    assert expected.values == ("8:15",) if language == "en" else ("15時50分",)
    assert all(
        one.decision is Decision.PROPOSED for turn in conversation.turns for one in turn.proposals
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Our tour leader is Petra Holm.", ("Petra Holm",)),
        ("The budget is 1,200 euros.", ("1,200",)),
        ("Server db-1 runs version 3.2.", ("db-1", "3.2")),
        ("担当者は木村です。", ("木村",)),
        ("送迎バスは15時20分に出ます。", ("15時20分",)),
        ("予算は12万円です。", ("12万円",)),
        ("I like tea.", ()),
    ],
)
def test_values_are_spelled_as_in_the_text(text: str, expected: tuple[str, ...]) -> None:
    assert values_in(text) == expected


def scores(directory: Path) -> list[dict[str, object]]:
    lines = (directory / "records.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def evaluate(out: Path, name: str, *options: str) -> list[dict[str, object]]:
    words = ["eval", "--replay", str(LOGS / name), *OPTIONS, "--out", str(out), *options]
    assert execute(words) == 0
    return scores(out)


def decide(path: Path, decision: Decision) -> None:
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('"proposed"', f'"{decision}"'), encoding="utf-8")


@pytest.mark.parametrize("language", LANGUAGES)
def test_only_confirmed_annotations_score(language: str, tmp_path: Path) -> None:
    name, annotations = f"langsmith-{language}.jsonl", tmp_path / "a.toml"
    given = ("--annotations", str(annotations))
    plain = evaluate(tmp_path / "plain", name)
    assert execute(["eval", "propose", str(LOGS / name), "-o", str(annotations)]) == 0
    undecided = evaluate(tmp_path / "undecided", name, *given)
    decide(annotations, Decision.CONFIRMED)
    confirmed = evaluate(tmp_path / "confirmed", name, *given)
    assert undecided == plain
    assert [row["active_constraints"] for row in plain] == [0, 0, 0, 0]
    assert [row["active_constraints"] for row in confirmed] == [1, 1, 1, 1]


def test_a_replay_without_annotations_says_what_is_not_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evaluate(tmp_path / "plain", "table-en.csv")
    assert "no annotations" in (errors := capsys.readouterr().err)
    assert f"acc eval propose {LOGS / 'table-en.csv'}" in errors


def test_a_rejected_annotation_has_no_effect(tmp_path: Path) -> None:
    annotations = tmp_path / "a.toml"
    execute(["eval", "propose", str(LOGS / "table-en.csv"), "-o", str(annotations)])
    plain = evaluate(tmp_path / "plain", "table-en.csv")
    decide(annotations, Decision.REJECTED)
    given = ("--annotations", str(annotations))
    assert evaluate(tmp_path / "rejected", "table-en.csv", *given) == plain


def test_a_confirmed_expectation_changes_the_outcome(tmp_path: Path) -> None:
    annotations = tmp_path / "a.toml"
    execute(["eval", "propose", str(LOGS / "table-en.csv"), "-o", str(annotations)])
    decide(annotations, Decision.CONFIRMED)
    text = annotations.read_text(encoding="utf-8").replace('["8:15"]', '["9:59"]')
    annotations.write_text(text, encoding="utf-8")
    rows = evaluate(tmp_path / "run", "table-en.csv", "--annotations", str(annotations))
    assert rows[2]["answer_quality"] == 10.0
    assert rows[3]["answer_quality"] == 0.0


def test_every_agent_gets_the_words_of_the_user_live(tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = ["eval", "--replay", str(LOGS / "langfuse-ja.csv"), "--agents", "full,acc"]
    assert execute([*words, "--workers", "1", "--quiet", "--out", str(out)]) == 0
    (episode,) = (out / "episodes").glob("*.jsonl")
    lines = [json.loads(line) for line in episode.read_text().splitlines()]
    assert [line["query"] for line in lines][2] == "担当者は誰ですか。"
    assert all("木村" in agent["answer"] for agent in lines[2]["agents"])
    assert [agent["name"] for agent in lines[2]["agents"]] == ["full", "acc"]


def test_a_replay_is_continued_and_judged_again(tmp_path: Path) -> None:
    out = tmp_path / "run"
    first = evaluate(out, "events-en.jsonl")
    assert evaluate(out, "events-en.jsonl") == first
    assert (
        execute(["judge", "again", str(out), "--judge", "rubric", "--out", str(tmp_path / "r")])
        == 0
    )
    assert scores(tmp_path / "r") == first


def test_the_console_shows_a_finished_replay_as_complete(tmp_path: Path) -> None:
    evaluate(tmp_path / "run", "openai-ja.json")
    assert open_runs(tmp_path).progress("run").is_complete


def test_the_console_needs_no_file_of_a_replay_to_show_its_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, console = tmp_path / "here", tmp_path / "console"
    here.mkdir()
    console.mkdir()
    (here / "log.json").write_bytes((LOGS / "openai-ja.json").read_bytes())
    monkeypatch.chdir(here)
    assert execute(["eval", "--replay", "log.json", *OPTIONS, "--out", "../runs/done"]) == 0
    again = ["judge", "again", "../runs/done", "--judge", "rubric", "--out", "../runs/again"]
    assert execute(again) == 0
    (here / "log.json").unlink()
    monkeypatch.chdir(console)
    for name in ("done", "again"):
        progress = open_runs(Path("../runs")).progress(name)
        assert progress.is_complete
        assert progress.planned == progress.turns > 0
    (journal,) = (tmp_path / "runs" / "again" / "episodes").iterdir()
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-1]))
    progress = open_runs(Path("../runs")).progress("again")
    assert (progress.is_complete, progress.planned - progress.turns) == (False, 1)


def test_conversations_of_a_file_are_scenarios_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "two, and more.jsonl"
    items = [
        {"messages": [{"role": "user", "content": f"Item {n} costs {n}0 euros."}]} for n in (1, 2)
    ]
    path.write_text("\n".join(json.dumps(item) for item in items))
    library = ReplayLibrary()
    references = library.references(path)
    assert all(reference.startswith(REPLAY_REFERENCE) for reference in references)
    scenarios = [library.scenario(reference) for reference in references]
    assert [one.id for one in scenarios] == ["two-and-more-1", "two-and-more-2"]
    assert [one.turns[0].query for one in scenarios] == [
        "Item 1 costs 10 euros.",
        "Item 2 costs 20 euros.",
    ]
    out = tmp_path / "run"
    words = ["eval", "--replay", str(path), *OPTIONS, "--out", str(out)]
    assert execute(words) == 0
    assert len(scores(out)) == 2


def test_ids_are_unique_and_portable() -> None:
    assert scenario_ids("Log 1", ["A b", "a-B", "受付", "x" * 99]) == [
        "log-1-1",
        "log-1-2",
        "log-1-3",
        "x" * 60,
    ]


def test_confirm_asks_for_each_proposal_and_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    annotations = tmp_path / "a.toml"
    execute(["eval", "propose", str(LOGS / "openai-ja.json"), "-o", str(annotations)])
    monkeypatch.setattr("sys.stdin", io.StringIO("x\ny\nn\nq\n"))
    assert execute(["eval", "confirm", str(annotations)]) == 0
    assert "1 confirmed, 1 rejected, 4 undecided" in capsys.readouterr().out
    monkeypatch.setattr("sys.stdin", io.StringIO("y\ny\ns\n"))
    assert execute(["eval", "confirm", str(annotations)]) == 0
    assert "3 confirmed, 1 rejected, 2 undecided" in capsys.readouterr().out


def test_proposals_do_not_replace_decisions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    annotations = tmp_path / "a.toml"
    annotations.write_text("")
    assert execute(["eval", "propose", str(LOGS / "openai-ja.json"), "-o", str(annotations)]) == 2
    assert "already exists" in capsys.readouterr().err


def test_proposals_need_an_existing_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "注釈" / "a.toml"
    assert execute(["eval", "propose", str(LOGS / "openai-ja.json"), "-o", str(out)]) == 2
    assert f"{out.parent} is not a directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("proposal", "expected"),
    [
        ('kind = "rule"\nid = "r"\ntext = "x"', "requires a rule"),
        ('kind = "rule"\ntext = "x"\nrule = { kind = "json" }', "requires an id"),
        ('kind = "expect"\ntext = "x"', "requires values"),
        ('kind = "opinion"\ntext = "x"', "opinion"),
        ('kind = "fact"\nid = "f"\ntext = "x"\ndecison = "confirmed"', "decison"),
        ('kind = "once"\ntext = "x"\nrule = { kind = "max_words" }', "number"),
        ('kind = "fact', "not a file of annotations"),
    ],
)
def test_invalid_annotations_are_explained(proposal: str, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text(
        '[[conversations]]\nid = "c"\n[[conversations.turns]]\nturn = 1\nquery = "q"\n'
        f"[[conversations.turns.proposals]]\n{proposal}\n"
    )
    with pytest.raises(InvalidInput) as caught:
        read_annotations(path)
    assert expected in str(caught.value)
    assert str(path) in str(caught.value)


def test_annotations_of_another_log_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    library = ReplayLibrary()
    for conversation_id, query in (("other", "q"), ("tour-desk", "q")):
        turn = ProposedTurn(turn=1, query=query)
        found = [ProposedConversation(id=conversation_id, turns=(turn,))]
        path.write_text(annotation_text(found))
        with pytest.raises(InvalidInput, match="another file|differs"):
            library.references(LOGS / "openai-en.json", annotations=path)


@pytest.mark.parametrize(
    "options",
    [
        ("--replay-format", "openai"),
        ("--annotations", "a.toml"),
        ("--replay", str(LOGS / "openai-en.json"), "--scenario", "it-operations"),
        ("--replay", str(LOGS / "openai-en.json"), "--replay-format", "excel"),
        ("--replay", "missing.json"),
    ],
)
def test_options_that_do_not_fit_are_rejected(
    options: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute(["eval", *options, "--dry-run"]) == 2
    error = capsys.readouterr().err
    assert any(word in error for word in ("--replay", "excel", "missing.json"))


def confirmed(kind: ProposalKind, name: str, number: int = 0) -> Proposal:
    rule = FormatRule(kind=RuleKind.MAX_WORDS, number=number) if number else None
    return Proposal(kind=kind, id=name, text="x", rule=rule, decision=Decision.CONFIRMED)


def test_a_change_of_something_unconfirmed_states_it(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    messages = [{"role": "user", "content": text} for text in ("a", "b", "c")]
    path.write_text(json.dumps({"conversation_id": "c", "messages": messages}))
    annotations = tmp_path / "a.toml"
    turns = (
        ProposedTurn(turn=1, query="a", proposals=(confirmed(ProposalKind.CHANGED_RULE, "r", 40),)),
        ProposedTurn(
            turn=2,
            query="b",
            proposals=(
                confirmed(ProposalKind.RULE, "r", 20),
                confirmed(ProposalKind.CHANGED_FACT, "f"),
                confirmed(ProposalKind.LIFTED_RULE, "unknown"),
            ),
        ),
        ProposedTurn(
            turn=3,
            query="c",
            proposals=(
                confirmed(ProposalKind.FACT, "f"),
                confirmed(ProposalKind.LIFTED_RULE, "r"),
                confirmed(ProposalKind.ONCE, "", 5),
            ),
        ),
    )
    annotations.write_text(annotation_text([ProposedConversation(id="c", turns=turns)]))
    library = ReplayLibrary()
    (reference,) = library.references(path, annotations=annotations)
    first, second, third = library.scenario(reference).turns
    assert [c.id for c in first.constraints] == ["r"]
    assert ([c.id for c in second.amends], [f.id for f in second.facts]) == (["r"], ["f"])
    assert second.lifts == ()
    assert ([f.id for f in third.updates], third.lifts) == (["f"], ("r",))
    assert third.once[0].number == 5


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_any_text_survives_the_file(text: str) -> None:
    import tomllib

    proposal = Proposal(kind=ProposalKind.FACT, id=text, text=text, values=(text,))
    turn = ProposedTurn(turn=1, query=text, proposals=(proposal,))
    written = annotation_text([ProposedConversation(id=text, turns=(turn,))])
    (conversation,) = tomllib.loads(written)["conversations"]
    assert conversation["turns"][0]["query"] == text
    assert conversation["turns"][0]["proposals"][0]["values"] == [text]
