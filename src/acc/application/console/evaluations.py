"""Evaluation runs as the console shows them, and the folder that they are read from."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from acc.domain.labels import LabelItem


class RunRow(NamedTuple):
    """A run in the list."""

    name: str
    changed_at: float
    agents: str
    judge: str
    turns: int
    has_report: bool


class EpisodeProgress(NamedTuple):
    """The recorded turns of an episode; `planned` is 0 if their number is not known."""

    name: str
    turns: int
    planned: int


class RunProgress(NamedTuple):
    """How far a run is; it is active if a turn was recorded within the last minute."""

    episodes: tuple[EpisodeProgress, ...]
    is_active: bool

    @property
    def turns(self) -> int:
        """Return the number of recorded turns."""
        return sum(episode.turns for episode in self.episodes)

    @property
    def planned(self) -> int:
        """Return the number of all turns, 0 if it is not known."""
        planned = [episode.planned for episode in self.episodes]
        return sum(planned) if all(planned) else 0

    @property
    def is_complete(self) -> bool:
        """Return True if every planned turn is recorded."""
        return bool(self.planned) and self.turns >= self.planned


class ResultRow(NamedTuple):
    """An agent of a run: its turns by status, and its metrics with their intervals."""

    agent: str
    scored: int
    failed: int
    unscored: int
    cells: tuple[tuple[str, str], ...]


class ClaimView(NamedTuple):
    """A claim of an answer with the verdict and the evidence of the judge."""

    claim: str
    verdict: str
    is_supported: bool
    evidence: str


class AnswerView(NamedTuple):
    """The answer of an agent in a turn, with its scores and findings."""

    agent: str
    status: str
    answer: str
    scores: tuple[tuple[str, str], ...]
    claims: tuple[ClaimView, ...]
    findings: tuple[tuple[str, str, str], ...]


class TurnView(NamedTuple):
    """A turn of an episode; `numbers` are those of all its recorded turns."""

    turn: int
    topic: str
    query: str
    injected: str
    answers: tuple[AnswerView, ...]
    numbers: tuple[int, ...]


class ComparisonRow(NamedTuple):
    """A metric of an agent in two runs.

    The difference is that of the turns that both have; `is_clear` as in `acc compare`: a declared
    metric whose corrected difference excludes zero.
    """

    agent: str
    metric: str
    first: str
    second: str
    difference: str
    interval: str
    scenarios: int
    is_clear: bool


class Comparison(NamedTuple):
    """The metrics of two runs, and what else differs between them."""

    rows: tuple[ComparisonRow, ...]
    settings: tuple[Mapping[str, str], ...]


class TrendPoint(NamedTuple):
    """The mean of a metric in a run, None if the run does not have it."""

    run: str
    changed_at: float
    values: Mapping[str, float | None]
    texts: Mapping[str, str]


class RaterSession(Protocol):
    """The sample of one rater."""

    @property
    def sample(self) -> Sequence[LabelItem]:
        """Return the items in the order in which they are shown."""
        ...

    def labels(self) -> Mapping[str, bool | None]:
        """Return the labels so far, by item."""
        ...

    def record(self, item: LabelItem, good: bool | None) -> None:
        """Store a label; the last one of an item counts."""
        ...


class RaterSessions(Protocol):
    """Opens the samples of raters."""

    def open(self, rater: str) -> RaterSession:
        """Return the sample of a rater, or raise InvalidInput for an invalid name."""
        ...

    def progress(self) -> Mapping[str, int]:
        """Return the number of labels of each known rater."""
        ...


class EvaluationFolder(Protocol):
    """The evaluation runs in a folder. Methods read files; NotFound if a run does not exist."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """Return the names of the metrics."""
        ...

    def runs(self) -> list[RunRow]:
        """Return the runs, most recently changed first."""
        ...

    def progress(self, name: str) -> RunProgress:
        """Return how far a run is."""
        ...

    def results(self, name: str) -> tuple[ResultRow, ...]:
        """Return the results of the recorded turns."""
        ...

    def turn(self, name: str, episode: str, number: int) -> TurnView:
        """Return a turn with the evidence of the judge."""
        ...

    def compare(self, first: str, second: str) -> Comparison:
        """Return the metrics of two runs with their differences."""
        ...

    def trend(self, metric: str) -> tuple[TrendPoint, ...]:
        """Return a metric of all agents over the runs, oldest run first."""
        ...

    def labels(self, name: str) -> RaterSessions:
        """Return the samples of raters of a run."""
        ...

    def write_report(self, name: str) -> None:
        """Write the report and the pages of the turns."""
        ...

    def file(self, name: str, path: str) -> bytes:
        """Return a page or table of a run."""
        ...

    def export(self, name: str) -> bytes:
        """Return report, pages and tables of a run as a ZIP archive."""
        ...
