"""An episode's journal in domain words: turns in, turns out."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace

from acc.adapters.runs.run_directory import EpisodeJournal
from acc.adapters.runs.turn_lines import line_of, result_of
from acc.domain.value_objects.live_evaluation import TurnResult
from acc.domain.value_objects.scenario import Scenario


class RecordedEpisode:
    """Implements EpisodeJournalPort on a file; use it as a context manager."""

    def __init__(
        self, journal: EpisodeJournal, scenario: Scenario, *, driven: bool = False
    ) -> None:
        self._journal = journal
        self._turns = {turn.turn_id: turn for turn in scenario.turns}
        self._canonical: Mapping[str, object] = {}
        self._driven = driven
        self._open = ExitStack()

    def __enter__(self) -> "RecordedEpisode":
        self._appender = self._open.enter_context(self._journal.appending())
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def earlier(self) -> tuple[TurnResult, ...]:
        """Return the turns that are on record already."""
        results: list[TurnResult] = []
        for line in self._journal.read():
            result = result_of(line, self._canonical)
            self._canonical = result.canonical_memory
            results.append(result)
        return tuple(results)

    async def append(self, result: TurnResult) -> None:
        """Put a turn on record before the next one starts."""
        turn = self._turns.get(result.query.turn_id)
        if turn is not None and self._driven:
            # The judge wrote the query: of the script only the topic holds.
            turn = replace(turn, injected="")
        self._appender.append(line_of(result, turn, self._canonical))
        self._canonical = result.canonical_memory
