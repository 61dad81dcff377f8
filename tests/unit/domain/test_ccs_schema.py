import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from state_strategies import STATES

from acc.domain.ccs import LIMITS, parse_state, to_payload, validate_state
from acc.domain.errors import InvalidState
from acc.domain.value_objects.ccs import (
    ArtifactReference,
    CompressedCognitiveState,
    StandingConstraint,
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
def test_state_survives_its_payload(state: CompressedCognitiveState) -> None:
    validate_state(state)
    assert parse_state(to_payload(state)) == state


@given(json_like | near_payloads)
def test_any_payload_becomes_a_state_or_an_error_naming_a_field(payload: object) -> None:
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
def test_fault_names_its_field(change: dict[str, object], field: str, fault: str) -> None:
    with pytest.raises(InvalidState) as caught:
        parse_state({**EMPTY, **change})
    assert caught.value.field == field
    assert fault in caught.value.fault


@pytest.mark.parametrize("field", list(LIMITS))
def test_all_nine_fields_must_be_there(field: str) -> None:
    with pytest.raises(InvalidState, match=f"{field}: is missing"):
        parse_state({name: value for name, value in EMPTY.items() if name != field})


def test_state_must_be_an_object() -> None:
    with pytest.raises(InvalidState, match="state: must be an object, not list"):
        parse_state([])


def test_state_built_in_code_is_held_to_the_schema() -> None:
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
def test_a_fault_is_found_in_each_field(
    state: CompressedCognitiveState, request: pytest.FixtureRequest
) -> None:
    with pytest.raises(InvalidState) as error:
        validate_state(state)
    assert error.value.field.startswith(request.node.callspec.id)


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(STATES)
def test_a_sound_state_built_in_code_passes(state: CompressedCognitiveState) -> None:
    validate_state(state)
