"""The findings of all turns of a run for the search of the report page."""

from collections.abc import Mapping, Sequence
from typing import Any

from acc.adapters.reports.run_directory import EvaluationDirectory
from acc.adapters.reports.turn_records import AgentRecord, TurnRecord
from acc.domain.value_objects.evaluation import UNCLEAR, FindingKind, TurnStatus
from acc.domain.value_objects.evaluation_run import EpisodeJob

#: Classes of findings that are not rules: claims and turns.
CLAIM_CLASSES = ("unsupported claim", "unclear claim")
STATUS_CLASSES = ("failed turn", "unscored turn")
CLASSES = (*CLAIM_CLASSES, *(kind.value.replace("_", " ") for kind in FindingKind), *STATUS_CLASSES)
#: The page lists at most so many findings; more are in `acc export`.
MAX_FINDINGS = 20_000
_MAX_TEXT_LENGTH = 240


def finding_data(
    run: EvaluationDirectory, jobs: Sequence[EpisodeJob], pages: Mapping[str, str]
) -> dict[str, Any]:
    """Return all findings; `pages` has the page of each episode that has one.

    A row is episode, turn, topic, agent, class and text, by their numbers.
    """
    agents = [agent.name for agent in run.configuration.agents]
    topics: dict[str, int] = {}
    rows: list[list[object]] = []
    total = 0
    for number, job in enumerate(jobs):
        for record in run.lines(job):
            topic = topics.setdefault(record.topic, len(topics))
            for agent in record.agents:
                for name, text in _findings(agent, record):
                    total += 1
                    if total <= MAX_FINDINGS:
                        place = [number, record.turn, topic, agents.index(agent.name)]
                        rows.append([*place, CLASSES.index(name), text[:_MAX_TEXT_LENGTH]])
    return {
        "agents": agents,
        "classes": CLASSES,
        "topics": [topic.replace("_", " ") for topic in topics],
        "episodes": [[job.name, job.scenario.id, pages.get(job.name, "")] for job in jobs],
        "findings": rows,
        "total": total,
    }


def _findings(agent: AgentRecord, record: TurnRecord) -> list[tuple[str, str]]:
    """Return class and text of everything that the judge found in an answer."""
    if agent.status is not TurnStatus.SCORED:
        return [(f"{agent.status.value} turn", agent.error)]
    found = [
        (CLAIM_CLASSES[claim.verdict == UNCLEAR], claim.claim)
        for claim in agent.claims
        if not claim.supported or claim.verdict == UNCLEAR
    ]
    found += [
        (finding.kind.value.replace("_", " "), finding.constraint)
        for finding in (*agent.findings, *agent.carried)
    ]
    return found
