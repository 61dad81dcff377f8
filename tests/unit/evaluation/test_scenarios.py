"""Scenario files: what is refused, and in what words; what a seed varies."""

import pytest

from acc.adapters.evaluation import scenarios as scenario_files
from acc.domain.errors import InvalidInput, InvalidScenario
from acc.domain.value_objects.stress_topic import StressTopic

HEAD = 'id = "mine"\ntitle = "Mine"\ndomain = "d"\nlanguage = "en"\n'
TURN = '[[turns]]\nturn = {n}\ntopic = "setup"\nquery = "{q}"\nexpect = ["{e}"]\n'


def scenario(*turns: str, head: str = HEAD) -> str:
    return head + "".join(turns)


def plain(n: int = 1) -> str:
    return TURN.format(n=n, q="The lead is Bo. Who is the lead?", e="Bo")


def errors_of(text: str) -> list[str]:
    try:
        template = scenario_files.parse_scenario(text, "mine.toml")
    except InvalidScenario as error:
        assert all(line.startswith("mine.toml: ") for line in str(error).splitlines())
        return list(error.faults)
    return list(scenario_files.scenario_errors(template))


def test_valid_scenario_has_no_errors() -> None:
    assert errors_of(scenario(plain(1), plain(2))) == []


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("id = ]", "not TOML: Invalid value (at line 1, column 6)"),
        (HEAD, "turns: is required"),
        (HEAD + "turns = []\n", "turns: at least one is required"),
        (scenario(plain(), head=HEAD.replace("mine", "My Own")), "id: 'My Own' must be lower-case"),
        (
            scenario(plain(), head=HEAD.replace('"en"', '"fr"')),
            "language: 'fr' is not one of the allowed values: en, ja",
        ),
        (scenario(plain(), head=HEAD.replace('"d"', '" "')), "domain: must not be empty"),
        (scenario(plain(1), plain(3)), "turn 3: turn: must be 2; turns are numbered 1..T"),
        (scenario(plain(2)), "turn 2: turn: must be 1"),
        (
            scenario(plain().replace("setup", "siesta")),
            "turn 1: topic: 'siesta' is not one of the allowed values: setup, ",
        ),
        (scenario(plain().replace("expect", "expects")), "turn 1: expects: is not a known field"),
        (scenario(plain() + 'colour = "red"\n'), "turn 1: colour: is not a known field"),
        (
            scenario(plain().replace("expect", "expects")),
            "did you mean expect; known fields: turn, topic, query,",
        ),
        (
            scenario(plain() + "once = [{ id = 'x', kind = 'forbid' }]\n"),
            "turn 1: once[0].id: is not a known field; known fields: kind, number, words",
        ),
        (scenario(plain().replace("turn = 1\n", "")), "turn at position 1: turn: is required"),
        (scenario(plain() + "avoid = 'x'\n"), "turn 1: avoid: must be a list, not a string"),
        (scenario(plain() + "once = [{ kind = 'x' }]\n"), "turn 1: once[0].kind: 'x' is not one"),
        (scenario(TURN.format(n=1, q=" ", e="x")), "turn 1: query: must not be empty"),
        (scenario(TURN.format(n=1, q="{who}?", e="x")), "turn 1: query: unknown variable {who}"),
        (scenario(plain() + "injected = 'x'\n"), "{injected} requires the field injected"),
        (
            scenario(TURN.format(n=1, q="{distractors} Who?", e="x")),
            "{distractors} requires the field distractors",
        ),
        (
            scenario(plain() + "once = [{ kind = 'max_words' }]\n"),
            "turn 1: once: number of a max_words rule must be >= 1",
        ),
        (
            scenario(plain() + "once = [{ kind = 'forbid' }]\n"),
            "turn 1: once: words of a forbid rule",
        ),
        (
            scenario(plain(), head=HEAD + "[variables]\nx = { pool = 'p' }\n"),
            "variables.x: unknown pool 'p'",
        ),
        (
            scenario(plain(), head=HEAD + "[variables]\nx = { min = 3, max = 3 }\n"),
            "variables.x: requires a pool, or min < max",
        ),
        (
            scenario(plain(), head=HEAD + "[variables]\ninjected = { min = 1, max = 3 }\n"),
            "variables.injected: the name is reserved",
        ),
        (
            scenario(
                plain(), head=HEAD + "[pools]\np = ['a', 'a']\n[variables]\nx = { pool = 'p' }\n"
            ),
            "pools.p: values must be unique",
        ),
        (
            scenario(
                plain(),
                head=HEAD
                + "[pools]\np = ['a']\n[variables]\nx = { pool = 'p' }\ny = { pool = 'p' }\n",
            ),
            "pools.p: 2 variables draw from 1 values",
        ),
        (
            scenario(plain(), head=HEAD + "[variables]\nx = { min = 1, max = 3 }\n"),
            "variables.x: never used",
        ),
    ],
)
def test_invalid_structure_is_reported_by_turn_and_field(text: str, error: str) -> None:
    assert any(error in line for line in errors_of(text)), errors_of(text)


FACT = "{field} = [{{ id = 'lead', text = '{text}', values = ['{value}'] }}]\n"


@pytest.mark.parametrize(
    ("extra", "error"),
    [
        (
            FACT.format(field="facts", text="The lead is Zoe.", value="Zoe"),
            "is missing in the query",
        ),
        (FACT.format(field="facts", text="The lead is he.", value="Bo"), "is missing in its text"),
        (FACT.format(field="updates", text="The lead is Bo.", value="Bo"), "no fact 'lead' yet"),
        ("retracts = ['lead']\n", "turn 1: retracts: no fact 'lead'"),
        ("lifts = ['length']\n", "turn 1: lifts: no constraint 'length' in force"),
        ("avoid = ['Bo']\n", "turn 1: avoid: 'Bo' is part of an expected text"),
        (
            "constraints = [{ id = 'e', text = 't', "
            "rule = { kind = 'ends_with', words = ['X.'] } }]\n",
            "turn 1: constraints: 'e' word 'X.' is missing in the query",
        ),
        (
            "amends = [{ id = 'e', text = 't', rule = { kind = 'policy' } }]\n",
            "turn 1: amends: no constraint 'e' in force",
        ),
    ],
)
def test_annotations_that_contradict_the_query_are_reported(extra: str, error: str) -> None:
    assert any(error in line for line in errors_of(scenario(plain() + extra)))


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        (
            'expect = ["Bo"]',
            'expect = ["@nobody"]',
            "turn 1: expect: no earlier turn establishes 'nobody'",
        ),
        ('expect = ["Bo"]', "expect = []", "expect: at least one element is required"),
        (
            'expect = ["Bo"]',
            'expect = ["Zoe"]',
            "expect: no fact or constraint so far contains ['Zoe']",
        ),
        (
            'topic = "setup"',
            'topic = "prompt_injection"',
            "injected: required in a prompt_injection turn",
        ),
    ],
)
def test_expectations_that_no_agent_can_meet_are_reported(old: str, new: str, error: str) -> None:
    assert any(error in line for line in errors_of(scenario(plain().replace(old, new))))


def test_duplicate_fact_or_constraint_is_reported() -> None:
    fact = FACT.format(field="facts", text="The lead is Bo.", value="Bo")
    rule = "constraints = [{ id = 'k', text = 't', rule = { kind = 'policy' } }]\n"
    errors = errors_of(scenario(plain(1) + fact + rule, plain(2) + fact + rule))
    assert "turn 2: facts: 'lead' already exists; use updates" in errors
    assert "turn 2: constraints: 'k' already exists; use amends" in errors


def test_duplicate_id_in_a_turn_is_reported() -> None:
    one = "{ id = 'lead', text = 'The lead is Bo.', values = ['Bo'] }"
    assert "turn 1: facts: 'lead' occurs twice" in errors_of(
        scenario(plain() + f"facts = [{one}, {one}]\n")
    )


def test_unknown_or_unreadable_reference_is_rejected(tmp_path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidInput, match="Did you mean 'it-operations'"):
        scenario_files.load_template("it-operation")
    with pytest.raises(InvalidScenario, match="cannot be read"):
        scenario_files.load_template(str(tmp_path / "nothing.toml"))
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidScenario, match="cannot be read"):
        scenario_files.load_template(str(tmp_path / "bytes.toml"))


@pytest.mark.parametrize("name", scenario_files.shipped_ids())
def test_shipped_scenarios_are_valid_and_have_every_stress_topic(name: str) -> None:
    template = scenario_files.load_template(name)
    assert template.id == name
    assert scenario_files.scenario_errors(template) == ()
    assert len(template.turns) == 50
    assert {turn.topic for turn in template.turns} == set(StressTopic)


def test_shipped_scenarios_cover_many_domains_in_two_languages() -> None:
    templates = [scenario_files.load_template(name) for name in scenario_files.shipped_ids()]
    assert len(templates) >= 24
    assert len({t.entry.domain for t in templates}) >= 12
    assert all([t.entry.language for t in templates].count(one) >= 10 for one in ("en", "ja"))


@pytest.mark.parametrize("name", scenario_files.shipped_ids())
def test_different_seeds_give_different_episodes(name: str) -> None:
    template = scenario_files.load_template(name)
    episodes = {tuple(t.query for t in template.render(seed).turns) for seed in range(20)}
    assert len(episodes) == 20


def test_seed_varies_values_phrasings_and_distractors() -> None:
    template = scenario_files.parse_scenario(
        scenario(
            "[[turns]]\nturn = 1\ntopic = 'setup'\n"
            "query = ['The lead is {lead}. {distractors} Who is the lead?',"
            " '{distractors} {lead} is the lead. Who is the lead?']\n"
            "distractors = ['It rains.', 'Bo sings.', 'Tea is ready.']\nexpect = ['{lead}']\n",
            head=HEAD + "[pools]\np = ['Ann', 'Ben', 'Cy']\n[variables]\nlead = { pool = 'p' }\n",
        ),
        "mine.toml",
    )
    queries = {template.render(seed).turns[0].query for seed in range(200)}
    assert len(queries) == 3 * 2 * 6
    assert template.render(7) == template.render(7)


ORDERED = """
[[turns]]
turn = 1
topic = "setup"
query = "The lead is {lead}. Who is the lead?"
facts = [{ id = "lead", text = "The lead is {lead}.", values = ["{lead}"] }]
expect = ["@lead"]
[[turns]]
turn = 2
topic = "setup"
query = "The door is blue. Which colour has the door?"
facts = [{ id = "door", text = "The door is blue.", values = ["blue"] }]
expect = ["@door"]
[[turns]]
turn = 3
topic = "setup"
query = "Who is the lead?"
expect = ["@lead"]
[[turns]]
turn = 4
topic = "setup"
query = "The lift is out of order. What is out of order?"
expect = ["lift"]
"""
POOLS = "[pools]\np = ['Ann', 'Ben', 'Cy']\n[variables]\nlead = { pool = 'p' }\n"


def ordered(settings: str) -> scenario_files.ScenarioTemplate:
    text = scenario(ORDERED, head=HEAD + settings + POOLS)
    return scenario_files.parse_scenario(text, "mine.toml")


def test_seed_selects_an_order_in_which_facts_are_stated_before_they_are_asked() -> None:
    template = ordered("shuffle = [[1, 2, 3, 4]]\n")
    assert scenario_files.scenario_errors(template) == ()
    seen = set()
    for seed in range(100):
        episode = template.render(seed)
        assert [turn.turn_id for turn in episode.turns] == [1, 2, 3, 4]
        places = {turn.query[:12]: turn.turn_id for turn in episode.turns}
        assert places["The lead is "] < places["Who is the l"]
        seen.add(tuple(places))
    assert len(seen) == 12  # half of the 24 orders are admissible
    assert template.render(5) == template.render(5)


def test_turns_outside_a_group_keep_their_place() -> None:
    template = ordered("shuffle = [[2, 4]]\n")
    episodes = [template.render(seed).turns for seed in range(20)]
    first = {turns[0].query[:11] for turns in episodes}
    second = {turns[1].query for turns in episodes}
    assert first == {"The lead is"}
    assert len(second) == 2


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ("shuffle = [[1, 9]]\n", "shuffle: there is no turn 9"),
        ("shuffle = [[1, 2], [2, 3]]\n", "shuffle: turn 2 occurs twice"),
        ("shuffle = [[2]]\n", "shuffle: [2] must have at least two turns"),
        ("shuffle = [[1, 3]]\n", "shuffle: no two turns of [1, 3] can change places"),
        ("small_talk = ['Hi {lead}.']\n", "small_talk: sentences must not be empty"),
    ],
)
def test_invalid_order_or_small_talk_is_reported(settings: str, error: str) -> None:
    errors = errors_of(scenario(ORDERED, head=HEAD + settings + POOLS))
    assert [found for found in errors if error in found]


def test_seed_puts_small_talk_before_some_queries() -> None:
    template = ordered("small_talk = ['Rain again.', 'The tea is cold.']\n")
    plain_queries = ordered("").render(3)
    queries = [turn.query for seed in range(50) for turn in template.render(seed).turns]
    share = sum(query.startswith(("Rain", "The tea")) for query in queries) / len(queries)
    assert 0.2 < share < 0.4
    assert [turn.query for turn in template.render(3).turns] != []
    assert all(
        turn.query.endswith(plain_turn.query)
        for turn, plain_turn in zip(template.render(3).turns, plain_queries.turns, strict=True)
    )


def test_variation_is_the_share_of_queries_that_differ_between_seeds() -> None:
    assert ordered("").variation() <= 0.25
    assert ordered("shuffle = [[1, 2, 3, 4]]\n").variation() > 0.5


def test_starter_is_a_valid_scenario() -> None:
    text = scenario_files.ScenarioLibrary().starter_text("my-own")
    assert scenario_files.scenario_errors(scenario_files.parse_scenario(text, "my-own.toml")) == ()
