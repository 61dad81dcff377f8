"""The history of a memory: changes with source and reason, and the search."""

import pytest

from acc import Agent, Runner
from acc.application.console.memory_history import Change, MemoryTurn, describe_turns, explain
from acc.bootstrap.console import search_words
from acc.domain.value_objects.event import Event, EventKind
from acc.testing import ScriptedModel

MESSAGES = (
    "Never restart db-1 without my approval. The incident lead is Alice.",
    "nginx returns 502.",
    "You may restart db-1 now without approval.",
)
JAPANESE = ("db-1を承認なしで再起動しないでください。", "nginxは502を返します。")


async def history(*texts: str) -> tuple[list[MemoryTurn], list[Event]]:
    agent = Agent(name="desk", memory="acc", model=ScriptedModel("ok", repeat=True))
    runner = Runner(agent)
    for text in texts:
        await runner.run(text)
    events = await runner.events()
    messages = [event for event in reversed(events) if event.kind is EventKind.MESSAGE]
    memories = [event for event in reversed(events) if event.kind is EventKind.MEMORY]
    turns = describe_turns(memories, messages, limit=10)[::-1]
    await runner.aclose()
    return turns, messages


async def test_new_rule_names_its_message_and_how_it_was_read() -> None:
    turns, _ = await history(*MESSAGES)
    rule = next(line for line in turns[0].lines if line.field == "constraints")
    assert (rule.change, rule.source) == (Change.ADDED, "user, turn 1")
    assert rule.reason.startswith("read as set (")
    unchanged = next(line for line in turns[1].lines if line.field == "constraints")
    assert unchanged == rule._replace(change=Change.UNCHANGED)


async def test_every_line_has_a_source_or_a_reason() -> None:
    for texts in (MESSAGES, JAPANESE):
        turns, _ = await history(*texts)
        lines = [line for turn in turns for line in turn.lines]
        assert [line for line in lines if not line.reason and not line.source] == []


async def test_lifted_rule_is_removed_with_the_reason() -> None:
    turns, _ = await history(*MESSAGES)
    rule = next(line for line in turns[2].lines if line.field == "constraints")
    assert rule.change is Change.REMOVED
    assert rule.reason == "turn 3: lifted: Never restart db-1 without my approval."


async def test_moved_line_names_the_other_field() -> None:
    turns, _ = await history(*MESSAGES)
    lead = "The incident lead is Alice."
    moved = {line.change: line.reason for line in turns[1].lines if lead in line.text}
    assert moved == {
        Change.ADDED: "moved from semantic_gist",
        Change.REMOVED: "moved to relational_map",
    }


@pytest.mark.parametrize(
    ("texts", "query"), [(MESSAGES, "rule about db-1"), (JAPANESE, "db-1の再起動")]
)
async def test_search_finds_message_reading_and_line(texts: tuple[str, ...], query: str) -> None:
    turns, messages = await history(*texts)
    found = explain(query, turns, messages, terms=search_words)
    assert {finding.kind for finding in found} >= {"message", "read", "added"}
    first = next(finding for finding in found if finding.kind == "message")
    assert (first.turn, first.text) == (1, texts[0])
    assert [finding.seq for finding in found] == sorted(finding.seq for finding in found)


async def test_search_shows_why_a_rule_was_removed() -> None:
    turns, messages = await history(*MESSAGES)
    found = explain("rule about db-1", turns, messages, terms=search_words)
    removed = [finding for finding in found if finding.kind == "removed"]
    assert [finding.turn for finding in removed] == [3]
    assert "lifted" in removed[0].reason


async def test_empty_search_finds_nothing() -> None:
    turns, messages = await history(*MESSAGES)
    assert explain("", turns, messages, terms=search_words) == ()
