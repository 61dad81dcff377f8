"""Errors of calls that violate the contract of an intent."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from acc.domain.errors import AgentFailed, InvalidInput, NotFound, UnsupportedOperation


class FieldViolation(NamedTuple):
    """A field that violates a contract; `rule` is a JSON schema keyword such as `required`.

    The description never contains the value of the field.
    """

    field: str
    rule: str
    description: str

    def describe(self, place: str) -> str:
        """Return a sentence about the field, in a place such as `inputs`."""
        if self.rule == "required":
            return f"Missing required field '{self.field}' in {place}."
        end = "" if self.description.endswith("?") else "."
        subject = f"Field '{self.field}' in {place}" if self.field else f"The {place}"
        return f"{subject} {self.description}{end}"


class InvalidInputs(InvalidInput):
    """Inputs that violate the contract of an intent. Nothing was executed.

    `hint` is a sentence that says what to send instead.
    """

    code = "invalid_inputs"

    def __init__(
        self,
        intent: str,
        violations: Sequence[FieldViolation],
        *,
        place: str = "inputs",
        hint: str = "",
    ) -> None:
        self.intent = intent
        self.violations = tuple(violations)
        self.place = place
        sentences = [one.describe(place) for one in self.violations]
        super().__init__(" ".join([*sentences, hint] if hint else sentences))


class MissingInput(InvalidInputs, KeyError):
    """An input field that the code of a node reads and the caller did not send.

    It is a KeyError too, so that code that handles a missing key is not affected.
    """

    def __init__(self, intent: str, field: str) -> None:
        super().__init__(intent, [FieldViolation(field, "required", "is required")])

    def __str__(self) -> str:
        return " ".join(one.describe(self.place) for one in self.violations)


class VaguePacket(InvalidInput):
    """A delegation packet that does not say what is delegated; `missing` lists its parts."""

    code = "vague_packet"

    def __init__(self, missing: Collection[str]) -> None:
        self.missing = tuple(missing)
        super().__init__(f"The delegation packet is vague: {'; '.join(self.missing)}.")


class RequestIdReused(InvalidInput):
    """A request with the id of an earlier one and another content. Nothing was executed."""

    code = "request_id_reused"

    def __init__(self, request_id: str) -> None:
        super().__init__(
            f"request_id: {request_id[:100]!r} was used for a request with other inputs, memory or "
            "permissions, or for another user or session; send a new id"
        )


class ReplayRejected(InvalidInput):
    """A request that is too old, has no nonce, or whose nonce was used before."""

    code = "replay_rejected"


class InvalidOutputs(AgentFailed):
    """Outputs that violate the contract of an intent."""

    code = "invalid_outputs"

    def __init__(self, agent: str, intent: str, violations: Sequence[FieldViolation]) -> None:
        self.intent = intent
        self.violations = tuple(violations)
        sentences = " ".join(one.describe("outputs") for one in self.violations)
        super().__init__(agent, f"it violated the contract of intent {intent!r}: {sentences}")


class UnknownIntent(NotFound):
    """An intent that the agent does not have."""

    code = "unknown_intent"

    def __init__(self, intent: str, known: Collection[str]) -> None:
        names = ", ".join(sorted(known)) or "none"
        super().__init__(f"Unknown intent {intent[:100]!r}; this agent has: {names}")
        self.intent = intent


class IntentNotCompleted(UnsupportedOperation):
    """An intent whose task waits for input, or was rejected or canceled."""

    code = "intent_not_completed"
