"""Schema, text form and token budget of the Compressed Cognitive State."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from state_strategies import ANY_TEXT, STATES

from acc.domain.ccs import (
    LIMITS,
    MIN_BUDGET_TOKENS,
    CountTokens,
    fit_to_budget,
    parse_state,
    parse_text,
    render_state,
    to_payload,
    validate_state,
)
from acc.domain.errors import InvalidInput, InvalidState
from acc.domain.value_objects.ccs import (
    ArtifactReference,
    CompressedCognitiveState,
    StandingConstraint,
    UncertaintyLevel,
    UncertaintySignal,
)

EMPTY = to_payload(CompressedCognitiveState())
json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)
pairs = st.fixed_dictionaries({"text": json_like, "set_by": json_like})
signals = st.fixed_dictionaries(
    {"level": st.sampled_from(["low", "high", "none"]) | json_like, "unconfirmed": json_like}
)
near_payloads = st.fixed_dictionaries(
    {}, optional={name: json_like | st.just(EMPTY[name]) for name in LIMITS}
) | st.builds(
    lambda changed: {**EMPTY, **changed},
    st.dictionaries(
        st.sampled_from(list(LIMITS)), json_like | st.lists(pairs, max_size=3) | signals
    ),
)


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(STATES)
def test_valid_state_equals_its_parsed_payload_and_text_form(
    state: CompressedCognitiveState,
) -> None:
    validate_state(state)
    assert parse_state(to_payload(state)) == state
    assert parse_text(render_state(state)) == state


@given(json_like | near_payloads)
def test_any_payload_gives_state_or_error_with_field(payload: object) -> None:
    try:
        state = parse_state(payload)
    except InvalidState as error:
        assert error.field
        assert error.fault
    else:
        assert parse_state(to_payload(state)) == state


@pytest.mark.parametrize(
    ("change", "field", "fault"),
    [
        ({"episodic_trace": "x"}, "episodic_trace", "must be a list, not str"),
        ({"episodic_trace": ["x"] * 7}, "episodic_trace", "has 7 items, the limit is 6"),
        ({"episodic_trace": ["x", 3]}, "episodic_trace[1]", "must be text, not int"),
        ({"episodic_trace": [""]}, "episodic_trace[0]", "is empty"),
        ({"episodic_trace": ["あ" * 241]}, "episodic_trace[0]", "has 241 characters"),
        ({"semantic_gist": None}, "semantic_gist", "must be text, not NoneType"),
        ({"semantic_gist": "two\nlines"}, "semantic_gist", "must be one normalised line"),
        ({"semantic_gist": "two  spaces"}, "semantic_gist", "must be one normalised line"),
        ({"semantic_gist": "全角　空白"}, "semantic_gist", "must be one normalised line"),
        ({"semantic_gist": "a\u202eb"}, "semantic_gist", "must be one normalised line"),
        ({"semantic_gist": "a\ud800"}, "semantic_gist", "must be one normalised line"),
        ({"focal_entities": ["nginx"]}, "focal_entities", "must have the form kind(content)"),
        ({"relational_map": ["After(a)"]}, "relational_map", "must have the form kind(content)"),
        ({"constraints": ["x"]}, "constraints[0]", "must be an object, not str"),
        ({"constraints": [{"text": "x"}]}, "constraints[0].set_by", "is missing"),
        (
            {"constraints": [{"text": "x", "set_by": "user", "until": "May"}]},
            "constraints[0].until",
            "is unknown",
        ),
        ({"constraints": [{"text": "", "set_by": "u"}]}, "constraints[0].text", "is empty"),
        (
            {"uncertainty_signal": {"level": "none", "unconfirmed": []}},
            "uncertainty_signal.level",
            "must be one of low, medium, high",
        ),
        (
            {"uncertainty_signal": {"level": "low", "unconfirmed": ["x"] * 7}},
            "uncertainty_signal.unconfirmed",
            "has 7 items",
        ),
        (
            {"retrieved_artifacts": [{"artifact_id": "a", "provenance": "x" * 81}]},
            "retrieved_artifacts[0].provenance",
            "has 81 characters, the limit is 80",
        ),
        ({"mood": "calm"}, "mood", "is unknown; the fields are episodic_trace"),
    ],
)
def test_invalid_payload_error_names_field_and_fault(
    change: dict[str, object], field: str, fault: str
) -> None:
    with pytest.raises(InvalidState) as caught:
        parse_state({**EMPTY, **change})
    assert caught.value.field == field
    assert fault in caught.value.fault


@pytest.mark.parametrize("field", list(LIMITS))
def test_missing_field_is_rejected(field: str) -> None:
    with pytest.raises(InvalidState, match=f"{field}: is missing"):
        parse_state({name: value for name, value in EMPTY.items() if name != field})


def test_payload_that_is_not_an_object_is_rejected() -> None:
    with pytest.raises(InvalidState, match="state: must be an object, not list"):
        parse_state([])


def test_validate_state_checks_items_that_the_previous_state_has_not() -> None:
    old, new = "fact(The lead is Bo.)", "fact(The  lead is Ann.)"
    previous = CompressedCognitiveState(relational_map=(old,))
    validate_state(CompressedCognitiveState(relational_map=(old,) * 24), previous=previous)
    for items in ((old, new), (old,) * 25):
        with pytest.raises(InvalidState) as error:
            validate_state(CompressedCognitiveState(relational_map=items), previous=previous)
        assert error.value.field.startswith("relational_map")


def test_validate_state_rejects_text_over_limit() -> None:
    constraint = StandingConstraint(text="x" * 401)
    with pytest.raises(InvalidState, match=r"constraints\[0\].text: has 401 characters"):
        validate_state(CompressedCognitiveState(constraints=(constraint,)))


@pytest.mark.parametrize(
    "state",
    [
        CompressedCognitiveState(episodic_trace=("",)),
        CompressedCognitiveState(semantic_gist="two  spaces"),
        CompressedCognitiveState(focal_entities=("item(x)",) * 13),
        CompressedCognitiveState(relational_map=(f"fact({'x' * 320})",)),
        CompressedCognitiveState(goal_orientation="x" * 321),
        CompressedCognitiveState(constraints=(StandingConstraint(text="x", set_by=""),)),
        CompressedCognitiveState(predictive_cue="a\nb"),
        CompressedCognitiveState(uncertainty_signal=UncertaintySignal(unconfirmed=("x",) * 7)),
        CompressedCognitiveState(
            retrieved_artifacts=(ArtifactReference(artifact_id="a", provenance="x" * 81),)
        ),
    ],
    ids=LIMITS,
)
def test_validate_state_names_invalid_field(
    state: CompressedCognitiveState, request: pytest.FixtureRequest
) -> None:
    with pytest.raises(InvalidState) as error:
        validate_state(state)
    assert error.value.field.startswith(request.node.callspec.id)


STATE = CompressedCognitiveState(
    episodic_trace=("turn 3: db-1 failed | again",),
    semantic_gist="a < b \\ c",
    focal_entities=("service(nginx)", "person(佐藤)"),
    relational_map=("after(502_spikes, enable_http2)",),
    goal_orientation="18時までに復旧する",
    constraints=(
        StandingConstraint(text="Keep every answer under 60 words"),
        StandingConstraint(text="db-1を再起動しない", set_by="Mara"),
    ),
    predictive_cue="Next: the cause",
    uncertainty_signal=UncertaintySignal(
        level=UncertaintyLevel.MEDIUM, unconfirmed=("the root cause",)
    ),
    retrieved_artifacts=(ArtifactReference(artifact_id="a7", provenance="user turn 3"),),
)
STATE_TEXT = r"""episodic_trace: turn 3: db-1 failed \p again
semantic_gist: a \l b \\ c
focal_entities: service(nginx) | person(佐藤)
relational_map: after(502_spikes, enable_http2)
goal_orientation: 18時までに復旧する
constraints: Keep every answer under 60 words | db-1を再起動しない <by Mara>
predictive_cue: Next: the cause
uncertainty_signal: medium | the root cause
retrieved_artifacts: a7 <user turn 3>"""


def test_text_form_has_one_line_per_field() -> None:
    assert render_state(STATE) == STATE_TEXT
    assert parse_text(STATE_TEXT) == STATE


def test_text_form_of_empty_state_is_empty() -> None:
    assert render_state(CompressedCognitiveState()) == ""
    assert parse_text("\n") == CompressedCognitiveState()


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("hello", "text: a line must start with a field and a colon: 'hello'"),
        ("mood: calm", "text: a line must start with a field"),
        ("semantic_gist: a\nsemantic_gist: b", "semantic_gist: occurs more than once"),
        ("retrieved_artifacts: a7", r"retrieved_artifacts\[0\].provenance: is empty"),
        ("uncertainty_signal: unsure", "uncertainty_signal.level: must be one of"),
        ("episodic_trace: a | ", r"episodic_trace\[1\]: is empty"),
    ],
)
def test_invalid_text_form_is_rejected_with_reason(text: str, fault: str) -> None:
    with pytest.raises(InvalidState, match=fault):
        parse_text(text)


@given(ANY_TEXT)
def test_any_text_gives_state_or_error_with_field(text: str) -> None:
    for name in LIMITS:
        try:
            parse_text(f"{name}: {text}")
        except InvalidState as error:
            assert error.field


REDUCIBLE = CompressedCognitiveState(
    episodic_trace=("turn 1: began", "turn 2: 復旧した"),
    semantic_gist="checkout outage",
    focal_entities=("service(nginx)",),
    relational_map=("after(a, b)",),
    goal_orientation="restore checkout",
    constraints=(StandingConstraint(text="60 words"), StandingConstraint(text="再起動しない")),
    predictive_cue="the cause",
    uncertainty_signal=UncertaintySignal(level=UncertaintyLevel.HIGH, unconfirmed=("who", "when")),
    retrieved_artifacts=(ArtifactReference(artifact_id="a1", provenance="user turn 1"),),
)
REDUCTION_ORDER = (
    "predictive_cue: the cause",
    "episodic_trace: turn 1: began",
    "episodic_trace: turn 2: 復旧した",
    "retrieved_artifacts: a1",
    "focal_entities: service(nginx)",
    "relational_map: after(a, b)",
    "uncertainty_signal: who",
    "uncertainty_signal: when",
    "semantic_gist: checkout outage",
    "goal_orientation: restore checkout",
    "constraints: 60 words",
    "constraints: 再起動しない",
)


def count_double(text: str) -> int:
    return 2 * len(text)


def count_quarter(text: str) -> int:
    return -(-len(text) // 4)


COUNTERS = st.sampled_from([len, count_quarter, count_double])


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(STATES, st.integers(min_value=MIN_BUDGET_TOKENS, max_value=800), COUNTERS)
def test_any_state_fits_budget_and_is_reduced_in_order(
    state: CompressedCognitiveState, budget: int, count: CountTokens
) -> None:
    smaller, dropped, tokens = fit_to_budget(state, budget, count)
    assert tokens == count(render_state(smaller)) <= budget
    validate_state(smaller)
    if any(loss.startswith(("goal_orientation", "constraints")) for loss in dropped):
        remaining = replace(
            smaller, goal_orientation="", constraints=(), uncertainty_signal=UncertaintySignal()
        )
        assert remaining == CompressedCognitiveState()
        assert not smaller.uncertainty_signal.unconfirmed
    if any(loss.startswith("constraints") for loss in dropped):
        assert not smaller.goal_orientation
    assert bool(dropped) == (smaller != state)


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(STATES, COUNTERS)
def test_nothing_is_dropped_when_the_state_fits(
    state: CompressedCognitiveState, count: CountTokens
) -> None:
    tokens = count(render_state(state))
    assert fit_to_budget(state, max(MIN_BUDGET_TOKENS, tokens), count) == (state, (), tokens)


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(STATES, st.integers(min_value=MIN_BUDGET_TOKENS, max_value=400))
def test_every_item_remains_or_is_reported_as_dropped(
    state: CompressedCognitiveState, budget: int
) -> None:
    smaller, dropped, _ = fit_to_budget(state, budget, len)
    for name in ("episodic_trace", "focal_entities", "relational_map"):
        lost = [loss for loss in dropped if loss.startswith(f"{name}: ")]
        remaining = [f"{name}: {item}" for item in getattr(smaller, name)]
        assert lost + remaining == [f"{name}: {item}" for item in getattr(state, name)]
    lost = [loss for loss in dropped if loss.startswith("constraints: ")]
    remaining = [f"constraints: {c.text}" for c in smaller.constraints]
    assert lost + remaining == [f"constraints: {c.text}" for c in state.constraints]


def test_fields_are_reduced_in_fixed_order_oldest_item_first() -> None:
    for budget in range(MIN_BUDGET_TOKENS, len(render_state(REDUCIBLE))):
        _, dropped, _ = fit_to_budget(REDUCIBLE, budget, len)
        assert dropped == REDUCTION_ORDER[: len(dropped)]


def test_older_entities_and_facts_are_dropped_first() -> None:
    full = CompressedCognitiveState(
        focal_entities=tuple(f"host(web-{n})" for n in range(8)),
        relational_map=tuple(f"fact(item {n} is blue)" for n in range(10)),
        predictive_cue="next: answer",
        retrieved_artifacts=(ArtifactReference(artifact_id="t1.1", provenance="user turn 1"),),
    )
    dropped = fit_to_budget(full, len(render_state(full)) - 100, len)[1]
    assert dropped[:4] == tuple(f"focal_entities: host(web-{n})" for n in range(4))
    assert dropped[4:] == tuple(f"relational_map: fact(item {n} is blue)" for n in range(2))


def test_small_state_fits_minimum_budget_unchanged() -> None:
    state = CompressedCognitiveState(constraints=(StandingConstraint(text="be brief"),))
    assert fit_to_budget(state, MIN_BUDGET_TOKENS, len) == (state, (), len("constraints: be brief"))


def test_uncertainty_level_is_dropped_last() -> None:
    unsure = CompressedCognitiveState(
        uncertainty_signal=UncertaintySignal(level=UncertaintyLevel.HIGH)
    )
    state, dropped, tokens = fit_to_budget(unsure, MIN_BUDGET_TOKENS, count_double)
    assert (state, tokens) == (CompressedCognitiveState(), 0)
    assert dropped == ("uncertainty_signal: level",)


def test_items_over_field_limit_are_dropped_for_any_budget() -> None:
    state = CompressedCognitiveState(
        episodic_trace=tuple(f"turn {n}" for n in range(8)),
        uncertainty_signal=UncertaintySignal(unconfirmed=tuple("abcdefgh")),
    )
    smaller, dropped, _ = fit_to_budget(state, 10_000, len)
    assert dropped == (
        "episodic_trace: turn 0",
        "episodic_trace: turn 1",
        "uncertainty_signal: a",
        "uncertainty_signal: b",
    )
    validate_state(smaller)


def test_budget_below_minimum_is_rejected() -> None:
    with pytest.raises(InvalidInput, match="at least 32 tokens, got 31"):
        fit_to_budget(CompressedCognitiveState(), 31, len)
