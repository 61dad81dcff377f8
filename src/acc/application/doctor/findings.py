"""Findings of the doctor: the status of a check, the observation, and how to fix a problem."""

from dataclasses import dataclass
from enum import StrEnum

from acc.domain.errors import AccError


class CheckStatus(StrEnum):
    """Status of a check."""

    OK = "ok"
    NOTE = "note"
    WARN = "warn"
    FAIL = "fail"
    SKIPPED = "skipped"


class Area(StrEnum):
    """Area of a check, in the order of the report."""

    CARD = "Agent card"
    PROTOCOL = "Protocol"
    STREAMING = "Streaming"
    SECURITY = "Security"
    PUSH = "Push notifications"
    INPUT = "Bad input and limits"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Result of one check; the observation of a skipped check is the reason."""

    status: CheckStatus
    observation: str
    fix: str = ""


class CheckSkipped(AccError):
    """Raised by a check that does not apply to the server; the message is the reason."""

    code = "cannot_tell"


class InterfaceMissing(CheckSkipped):
    """Raised if the path of the interface does not exist, so that no reply says anything."""


def ok(observation: str) -> Finding:
    """Return a finding without a problem."""
    return Finding(status=CheckStatus.OK, observation=observation)


def note(observation: str, fix: str) -> Finding:
    """Return a finding about something that the specification leaves open."""
    return Finding(status=CheckStatus.NOTE, observation=observation, fix=fix)


def warn(observation: str, fix: str) -> Finding:
    """Return a finding that should be improved."""
    return Finding(status=CheckStatus.WARN, observation=observation, fix=fix)


def fail(observation: str, fix: str) -> Finding:
    """Return a finding that must be fixed."""
    return Finding(status=CheckStatus.FAIL, observation=observation, fix=fix)


def skipped(reason: str) -> Finding:
    """Return a finding of a check that does not apply."""
    return Finding(status=CheckStatus.SKIPPED, observation=reason)


def verdict_from(
    problems: list[str], *, observation: str, fix: str, warnings: list[str] | None = None
) -> Finding:
    """Return a failure if there are problems, a warning if there are warnings, else ok."""
    if problems:
        return fail("; ".join([*problems, *(warnings or ())]), fix)
    return warn("; ".join(warnings), fix) if warnings else ok(observation)
