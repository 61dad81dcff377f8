"""What a run of an evaluation consists of, and what comes out of it."""

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioChoice:
    """A scenario by reference, with the digest of what it said when the run began."""

    reference: str
    id: str
    domain: str
    language: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentChoice:
    """An agent's name in the run and what stands behind it."""

    name: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeConfiguration:
    """How a model judges: another one of these is another judge.

    `prompts` is a digest of its instructions and schemas. A temperature of None is the model's own.
    """

    model: str
    temperature: float | None
    votes: int
    both_orders: bool
    drives: bool
    repairs: int
    timeout: float
    prompts: str
    schema: int

    def __post_init__(self) -> None:
        if self.votes < 1 or self.repairs < 0 or self.timeout <= 0:
            raise ValueError(f"a judge needs a vote, repairs of 0 or more, and time: {self!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationConfig:
    """Everything that decides what a run records.

    Two equal ones record the same bytes as long as `model`, which the built-in agents answer with,
    answers the same twice: the embedded one does.
    """

    version: str
    scenarios: tuple[ScenarioChoice, ...]
    agents: tuple[AgentChoice, ...]
    judge: str
    episodes: int
    turns: int | None
    seed: int
    window: int
    budget: int
    timeout: float | None
    judge_attempts: int = 3
    visible_characters: int = 8_000
    vocabulary: str = "o200k_base"
    model: str = "embedded"
    compressor: str = "rules"
    judging: JudgeConfiguration | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeJob:
    """One episode of a run: which scenario, with which seed."""

    scenario: ScenarioChoice
    seed: int

    @property
    def name(self) -> str:
        """Return the episode's name, also that of its file."""
        return f"{self.scenario.id}.{self.seed:06d}"


def jobs_of(configuration: EvaluationConfig) -> tuple[EpisodeJob, ...]:
    """Return the episodes of a run, scenario by scenario."""
    return tuple(
        EpisodeJob(scenario=scenario, seed=configuration.seed + number)
        for scenario in configuration.scenarios
        for number in range(configuration.episodes)
    )


class Label(StrEnum):
    """What people say of a claim, or of an answer under a rule."""

    SUPPORTED = "supported"
    CONTRADICTED = "contradicted"
    UNSUPPORTED = "unsupported"
    KEPT = "kept"
    VIOLATED = "violated"
    OMITTED = "omitted"


CLAIM_LABELS = (Label.SUPPORTED, Label.CONTRADICTED, Label.UNSUPPORTED)
RULE_LABELS = (Label.KEPT, Label.VIOLATED, Label.OMITTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationItem:
    """A claim, or an answer under a rule, with its label.

    `answer` is what a judge gets to read; it may say more than the claim. `evidence` are the words
    of the context that decide a claim.
    """

    id: str
    kind: str
    label: Label
    text: str
    answer: str
    evidence: str = ""

    @property
    def is_claim(self) -> bool:
        """Tell whether a claim is labelled, and not an answer under a rule."""
        return self.label in CLAIM_LABELS

    def __post_init__(self) -> None:
        if not self.text.strip() or not self.answer.strip():
            raise ValueError(f"{self.id}: the text is empty")
        if not self.kind.strip():
            raise ValueError(f"{self.id}: the kind is empty")


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationCase:
    """What users said, turn by turn, what is asked then, and labelled answers to that."""

    id: str
    language: str
    domain: str
    context: tuple[str, ...]
    question: str
    items: tuple[CalibrationItem, ...]

    def __post_init__(self) -> None:
        if not self.context or not all(text.strip() for text in self.context):
            raise ValueError(f"{self.id}: the context is empty")
        if not self.question.strip():
            raise ValueError(f"{self.id}: the question is empty")
        if not self.items:
            raise ValueError(f"{self.id}: there is nothing to judge")
        for item in self.items:
            if item.is_claim and item.label is not Label.UNSUPPORTED and not item.evidence:
                raise ValueError(f"{item.id}: a claim that is {item.label} needs its evidence")
            if item.evidence and not any(item.evidence in text for text in self.context):
                raise ValueError(f"{item.id}: the evidence does not stand in the context")
