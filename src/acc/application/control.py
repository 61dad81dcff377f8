"""How a run leaves the tree other than by finishing.

These are no errors. They pass by every `except Exception` of an agent, as a cancellation does.
"""

from collections.abc import Sequence

from acc.domain.value_objects.event import InputRequest


class RunPaused(BaseException):
    """The run waits for answers; everything done so far is on record."""

    def __init__(self, requests: Sequence[InputRequest]) -> None:
        super().__init__(", ".join(request.id for request in requests))
        self.requests = tuple(requests)


class RunRejected(BaseException):
    """A person said no to a step, and nothing after it may happen."""

    def __init__(self, agent: str, reason: str) -> None:
        super().__init__(f"{agent}: {reason}" if reason else agent)
        self.agent = agent
        self.reason = reason
