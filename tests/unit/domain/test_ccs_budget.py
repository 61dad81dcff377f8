from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from state_strategies import STATES

from acc.domain.ccs import (
    MIN_BUDGET_TOKENS,
    CountTokens,
    fit_to_budget,
    render_state,
    validate_state,
)
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.ccs import (
    ArtifactReference,
    CompressedCognitiveState,
    StandingConstraint,
    UncertaintyLevel,
    UncertaintySignal,
)

FULL = CompressedCognitiveState(
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
ORDER = (
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


def doubled(text: str) -> int:
    return 2 * len(text)


def quarters(text: str) -> int:
    return -(-len(text) // 4)


counters = st.sampled_from([len, quarters, doubled])


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(STATES, st.integers(min_value=MIN_BUDGET_TOKENS, max_value=800), counters)
def test_state_fits_and_gives_way_in_order_whatever_it_holds(
    state: CompressedCognitiveState, budget: int, count: CountTokens
) -> None:
    smaller, dropped, tokens = fit_to_budget(state, budget, count)
    assert tokens == count(render_state(smaller)) <= budget
    validate_state(smaller)
    if any(loss.startswith(("goal_orientation", "constraints")) for loss in dropped):
        kept = replace(
            smaller, goal_orientation="", constraints=(), uncertainty_signal=UncertaintySignal()
        )
        assert kept == CompressedCognitiveState()
        assert not smaller.uncertainty_signal.unconfirmed
    if any(loss.startswith("constraints") for loss in dropped):
        assert not smaller.goal_orientation
    assert bool(dropped) == (smaller != state)


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(STATES, counters)
def test_nothing_is_dropped_when_the_state_fits(
    state: CompressedCognitiveState, count: CountTokens
) -> None:
    tokens = count(render_state(state))
    assert fit_to_budget(state, max(MIN_BUDGET_TOKENS, tokens), count) == (state, (), tokens)


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(STATES, st.integers(min_value=MIN_BUDGET_TOKENS, max_value=400))
def test_every_item_is_kept_or_reported(state: CompressedCognitiveState, budget: int) -> None:
    smaller, dropped, _ = fit_to_budget(state, budget, len)
    for name in ("episodic_trace", "focal_entities", "relational_map"):
        lost = [loss for loss in dropped if loss.startswith(f"{name}: ")]
        kept = [f"{name}: {item}" for item in getattr(smaller, name)]
        assert lost + kept == [f"{name}: {item}" for item in getattr(state, name)]
    lost = [loss for loss in dropped if loss.startswith("constraints: ")]
    kept = [f"constraints: {c.text}" for c in smaller.constraints]
    assert lost + kept == [f"constraints: {c.text}" for c in state.constraints]


def test_fields_give_way_in_a_fixed_order_oldest_item_first() -> None:
    for budget in range(MIN_BUDGET_TOKENS, len(render_state(FULL))):
        _, dropped, _ = fit_to_budget(FULL, budget, len)
        assert dropped == ORDER[: len(dropped)]


def test_older_facts_and_entities_give_way_before_anything_else() -> None:
    full = CompressedCognitiveState(
        focal_entities=tuple(f"host(web-{n})" for n in range(8)),
        relational_map=tuple(f"fact(item {n} is blue)" for n in range(10)),
        predictive_cue="next: answer",
        retrieved_artifacts=(ArtifactReference(artifact_id="t1.1", provenance="user turn 1"),),
    )
    dropped = fit_to_budget(full, len(render_state(full)) - 100, len)[1]
    assert dropped[:4] == tuple(f"focal_entities: host(web-{n})" for n in range(4))
    assert dropped[4:] == tuple(f"relational_map: fact(item {n} is blue)" for n in range(2))


def test_small_state_is_kept_whole_by_the_smallest_budget() -> None:
    state = CompressedCognitiveState(constraints=(StandingConstraint(text="be brief"),))
    assert fit_to_budget(state, MIN_BUDGET_TOKENS, len) == (state, (), len("constraints: be brief"))


def test_level_of_uncertainty_goes_when_nothing_else_is_left() -> None:
    unsure = CompressedCognitiveState(
        uncertainty_signal=UncertaintySignal(level=UncertaintyLevel.HIGH)
    )
    state, dropped, tokens = fit_to_budget(unsure, MIN_BUDGET_TOKENS, doubled)
    assert (state, tokens) == (CompressedCognitiveState(), 0)
    assert dropped == ("uncertainty_signal: level",)


def test_items_over_a_fields_limit_are_dropped_whatever_the_budget() -> None:
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


def test_budget_below_the_smallest_is_refused() -> None:
    with pytest.raises(InvalidInput, match="at least 32 tokens, got 31"):
        fit_to_budget(CompressedCognitiveState(), 31, len)
