"""Configuration, episodes and calibration examples of an evaluation."""

from dataclasses import dataclass
from enum import StrEnum

from acc.domain.value_objects.evaluation import ClaimThreshold
from acc.domain.value_objects.live_evaluation import TurnResult

#: The name of the compressor that needs no model.
RULE_COMPRESSOR = "rules"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioChoice:
    """A scenario by reference, with the digest of its text at the start of the run."""

    reference: str
    id: str
    domain: str
    language: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentChoice:
    """The name of an agent in the run, and its kind: a memory, `python:...` or `a2a:URL`."""

    name: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeConfig:
    """Configuration of a model judge; judges with different configurations are not comparable.

    `prompts` is a digest of the instructions and schemas. If `temperature` is None, the model's
    default applies. The votes go to `model` and `others` in turn. With `probabilities`, the
    probability of "yes" decides whether a claim is supported.
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
    others: tuple[str, ...] = ()
    probabilities: bool = False

    @property
    def models(self) -> tuple[str, ...]:
        """Return all models that vote."""
        return self.model, *self.others

    def __post_init__(self) -> None:
        if self.votes < 1:
            raise ValueError(f"votes must be at least 1, got {self.votes}")
        if self.repairs < 0:
            raise ValueError(f"repairs must be at least 0, got {self.repairs}")
        if self.timeout <= 0:
            raise ValueError(f"timeout must be positive, got {self.timeout}")


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationConfig:
    """Everything that determines the records of a run.

    Equal configurations give identical records if the models are deterministic. The embedded model
    is.
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
    compressor: str = RULE_COMPRESSOR
    judging: JudgeConfig | None = None
    claim_thresholds: tuple[ClaimThreshold, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeJob:
    """One episode of a run: a scenario and a seed."""

    scenario: ScenarioChoice
    seed: int

    @property
    def name(self) -> str:
        """Return the name of the episode and of its files."""
        return f"{self.scenario.id}.{self.seed:06d}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCompleted:
    """A turn of an episode was recorded."""

    episode: str
    turn: TurnResult


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeEnd:
    """How an episode ended, with the number of recorded turns.

    A `stopped` episode has turns left. An `aborted` episode met an error that other episodes would
    meet too, such as a rejected API key; its last turn was not recorded.
    """

    job: EpisodeJob
    turns: int
    error: str = ""
    stopped: bool = False
    aborted: bool = False


def jobs_of(configuration: EvaluationConfig) -> tuple[EpisodeJob, ...]:
    """Return the episodes of a run, scenario by scenario."""
    return tuple(
        EpisodeJob(scenario=scenario, seed=configuration.seed + number)
        for scenario in configuration.scenarios
        for number in range(configuration.episodes)
    )


class Label(StrEnum):
    """The label that people gave to a claim, or to an answer under a rule."""

    SUPPORTED = "supported"
    CONTRADICTED = "contradicted"
    UNSUPPORTED = "unsupported"
    SATISFIED = "kept"
    VIOLATED = "violated"
    OMITTED = "omitted"


CLAIM_LABELS = (Label.SUPPORTED, Label.CONTRADICTED, Label.UNSUPPORTED)
RULE_LABELS = (Label.SATISFIED, Label.VIOLATED, Label.OMITTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationItem:
    """A labelled claim, or a labelled answer under a rule.

    The judge reads `answer`, which may contain more than the claim `text`. `evidence` is the part
    of the context that decides a claim.
    """

    id: str
    kind: str
    label: Label
    text: str
    answer: str
    evidence: str = ""

    @property
    def is_claim(self) -> bool:
        """Return True for a claim, False for an answer under a rule."""
        return self.label in CLAIM_LABELS

    def __post_init__(self) -> None:
        if not self.text.strip() or not self.answer.strip():
            raise ValueError(f"{self.id}: text must not be empty")
        if not self.kind.strip():
            raise ValueError(f"{self.id}: kind must not be empty")


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationCase:
    """The user messages of a conversation, a question, and labelled answers to it."""

    id: str
    language: str
    domain: str
    context: tuple[str, ...]
    question: str
    items: tuple[CalibrationItem, ...]
    writer: str = "none"

    def __post_init__(self) -> None:
        if not self.context or not all(text.strip() for text in self.context):
            raise ValueError(f"{self.id}: context must not be empty")
        if not self.question.strip():
            raise ValueError(f"{self.id}: question must not be empty")
        if not self.items:
            raise ValueError(f"{self.id}: claims or answers are required")
        for item in self.items:
            if item.evidence and not any(item.evidence in text for text in self.context):
                raise ValueError(f"{item.id}: evidence is not part of the context")
