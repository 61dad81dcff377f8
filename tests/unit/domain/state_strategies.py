"""Hypothesis strategies for valid states and unusual texts."""

from hypothesis import strategies as st

from acc.domain.ccs import LIMITS
from acc.domain.language import one_line
from acc.domain.value_objects.ccs import (
    ArtifactReference,
    CompressedCognitiveState,
    StandingConstraint,
    UncertaintyLevel,
    UncertaintySignal,
)

_PIECES = st.sampled_from(
    [
        " | ",
        "|",
        " <by Mara>",
        "<",
        ">",
        "\\",
        "\\p",
        "\\l",
        ": ",
        "constraints: ",
        "承認なしに",
        "「禁止」",
    ]
)
#: Any text, including control characters, unpaired surrogates and direction marks.
ANY_TEXT = st.text(st.characters(), max_size=60) | st.lists(
    st.text(max_size=8) | _PIECES, max_size=8
).map("".join)


def lines(field: str, *, least: int = 1) -> st.SearchStrategy[str]:
    """Return normalised single lines that fit into a field."""
    most = LIMITS[field].characters
    return ANY_TEXT.map(lambda text: one_line(one_line(text)[:most])).filter(
        lambda line: least <= len(line) <= most and line == one_line(line)
    )


def _many(field: str) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(lines(field), max_size=LIMITS[field].items).map(tuple)


def _typed(field: str) -> st.SearchStrategy[tuple[str, ...]]:
    kinds = st.from_regex(r"[a-z][a-z0-9_]{0,6}", fullmatch=True)
    items = st.tuples(kinds, lines(field)).map(lambda pair: one_line(f"{pair[0]}({pair[1]})"))
    short = items.filter(lambda item: len(item) <= LIMITS[field].characters)
    return st.lists(short, max_size=LIMITS[field].items).map(tuple)


STATES = st.builds(
    CompressedCognitiveState,
    episodic_trace=_many("episodic_trace"),
    semantic_gist=lines("semantic_gist", least=0),
    focal_entities=_typed("focal_entities"),
    relational_map=_typed("relational_map"),
    goal_orientation=lines("goal_orientation", least=0),
    constraints=st.lists(
        st.builds(
            StandingConstraint,
            text=lines("constraints"),
            set_by=st.just("user") | st.just("by Mara") | lines("constraints"),
        ),
        max_size=LIMITS["constraints"].items,
    ).map(tuple),
    predictive_cue=lines("predictive_cue", least=0),
    uncertainty_signal=st.builds(
        UncertaintySignal,
        level=st.sampled_from(UncertaintyLevel),
        unconfirmed=_many("uncertainty_signal"),
    ),
    retrieved_artifacts=st.lists(
        st.builds(
            ArtifactReference,
            artifact_id=lines("retrieved_artifacts"),
            provenance=lines("retrieved_artifacts"),
        ),
        max_size=LIMITS["retrieved_artifacts"].items,
    ).map(tuple),
)
