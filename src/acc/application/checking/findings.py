"""What a check of a tree found: a verdict for each rule, and how to mend what is wrong."""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """How a rule is kept, from best to worst."""

    NOT_APPLICABLE = "not applicable"
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong, or looks so, with the agents it is about and what to do."""

    verdict: Verdict
    agents: tuple[str, ...]
    text: str
    fix: str


def problem(text: str, *agents: str, fix: str) -> Finding:
    """Return something that will go wrong."""
    return Finding(verdict=Verdict.PROBLEM, agents=agents, text=text, fix=fix)


def warning(text: str, *agents: str, fix: str) -> Finding:
    """Return something that may go wrong."""
    return Finding(verdict=Verdict.WARNING, agents=agents, text=text, fix=fix)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one rule came to; `applies` tells whether there was anything to look at."""

    applies: bool
    findings: tuple[Finding, ...] = ()
    note: str = ""

    @property
    def verdict(self) -> Verdict:
        """Return the worst that was found."""
        order = list(Verdict)
        if self.findings:
            return max((finding.verdict for finding in self.findings), key=order.index)
        return Verdict.OK if self.applies else Verdict.NOT_APPLICABLE
