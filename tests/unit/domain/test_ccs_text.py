import pytest
from hypothesis import HealthCheck, given, settings
from state_strategies import ANY_TEXT, STATES

from acc.domain.ccs import LIMITS, parse_text, render_state
from acc.domain.errors import InvalidState
from acc.domain.value_objects.ccs import (
    ArtifactReference,
    CompressedCognitiveState,
    StandingConstraint,
    UncertaintyLevel,
    UncertaintySignal,
)

FULL = CompressedCognitiveState(
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
FULL_TEXT = r"""episodic_trace: turn 3: db-1 failed \p again
semantic_gist: a \l b \\ c
focal_entities: service(nginx) | person(佐藤)
relational_map: after(502_spikes, enable_http2)
goal_orientation: 18時までに復旧する
constraints: Keep every answer under 60 words | db-1を再起動しない <by Mara>
predictive_cue: Next: the cause
uncertainty_signal: medium | the root cause
retrieved_artifacts: a7 <user turn 3>"""


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(STATES)
def test_every_valid_state_survives_its_text_form(state: CompressedCognitiveState) -> None:
    assert parse_text(render_state(state)) == state


def test_text_form_has_a_line_a_field() -> None:
    assert render_state(FULL) == FULL_TEXT
    assert parse_text(FULL_TEXT) == FULL


def test_empty_state_is_an_empty_text() -> None:
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
def test_text_that_is_no_state_is_refused_with_the_reason(text: str, fault: str) -> None:
    with pytest.raises(InvalidState, match=fault):
        parse_text(text)


@given(ANY_TEXT)
def test_any_text_becomes_a_state_or_an_error_naming_a_field(text: str) -> None:
    for name in LIMITS:
        try:
            parse_text(f"{name}: {text}")
        except InvalidState as error:
            assert error.field
