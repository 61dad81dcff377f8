"""What an examination of a server finds: a verdict for each check, and how to mend it."""

from dataclasses import dataclass
from enum import StrEnum

from acc.domain.errors import AccError


class CheckStatus(StrEnum):
    """How a check went."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    SKIPPED = "skipped"


class Area(StrEnum):
    """What a check is about; the order is the one in which people read them."""

    CARD = "Agent card"
    PROTOCOL = "Protocol"
    STREAMING = "Streaming"
    SECURITY = "Security"
    PUSH = "Push notifications"
    INPUT = "Bad input and limits"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one check saw, and what to do about it; for a skipped one, why it was skipped."""

    verdict: CheckStatus
    seen: str
    fix: str = ""


class CheckSkipped(AccError):
    """Report that a check has nothing to look at, and why."""

    code = "cannot_tell"


def ok(seen: str) -> Finding:
    """Return that all is well."""
    return Finding(verdict=CheckStatus.OK, seen=seen)


def warn(seen: str, fix: str) -> Finding:
    """Return that something could be better."""
    return Finding(verdict=CheckStatus.WARN, seen=seen, fix=fix)


def fail(seen: str, fix: str) -> Finding:
    """Return that something is wrong."""
    return Finding(verdict=CheckStatus.FAIL, seen=seen, fix=fix)


def skipped(reason: str) -> Finding:
    """Return that there was nothing to look at."""
    return Finding(verdict=CheckStatus.SKIPPED, seen=reason)


def verdict_from(
    faults: list[str], *, seen: str, fix: str, hints: list[str] | None = None
) -> Finding:
    """Return a failure if there are faults, a warning if there are only hints, ok otherwise."""
    if faults:
        return fail("; ".join([*faults, *(hints or ())]), fix)
    return warn("; ".join(hints), fix) if hints else ok(seen)
