"""Agents offered as tools to the agents of others: one call is one turn of a conversation."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from acc.application.agents.base import BaseAgent
from acc.application.runtime.recorder import RunObserver
from acc.application.runtime.runner import SessionRunner
from acc.domain.errors import AccError, InvalidInput, NotFound, SessionWaiting
from acc.domain.value_objects.approval import (
    ApprovalDecision,
    InputAnswer,
    InputRequest,
    RequestKind,
)
from acc.domain.value_objects.event import Event, EventKind

_USER = "mcp"
_MOST_ID = 128
_MOST_WORDS = 300
_PLAIN = frozenset({"string", "number", "integer", "boolean"})
_VERDICTS = [ApprovalDecision.APPROVE.value, ApprovalDecision.DENY.value]
_ANSWER = {
    "type": "object",
    "properties": {
        "request_id": {"type": "string"},
        "verdict": {"type": "string", "enum": _VERDICTS},
        "value": {"description": "What was asked for, where something was."},
        "reason": {"type": "string"},
    },
    "required": ["request_id"],
}
#: What a call of an offered agent takes.
PARAMETERS: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "message": {"type": "string", "description": "What to say to the agent."},
        "conversation_id": {
            "type": "string",
            "description": "The conversation to go on with, as an earlier call returned it; "
            "without one, a new conversation begins.",
        },
        "answers": {
            "type": "array",
            "items": _ANSWER,
            "description": "A person's answers, in place of a message, where the conversation "
            "waits for them.",
        },
    },
}
#: What it returns.
RETURNS: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "answer": {"type": "string"},
        "conversation_id": {"type": "string"},
        "status": {"type": "string"},
        "note": {
            "type": "string",
            "description": "That the conversation to go on with was not known, where it was not.",
        },
    },
    "required": ["answer", "conversation_id", "status"],
}


class GivenAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A person's answer as a client hands it in."""

    request_id: str
    verdict: ApprovalDecision = ApprovalDecision.APPROVE
    value: Any = None
    reason: str = ""


class OfferedCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a client asks of an offered agent."""

    message: str = ""
    conversation_id: str = ""
    answers: tuple[GivenAnswer, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedTurn:
    """How a call ended. With `requests` the conversation waits for a person.

    `note` is what the client should know beside the answer.
    """

    conversation_id: str
    text: str
    status: str
    requests: tuple[InputRequest, ...] = ()
    is_error: bool = False
    note: str = ""


class ServeMcpUseCase:
    """Lets others call agents, each by its name, with conversations that are kept."""

    def __init__(self, runners: Mapping[str, SessionRunner]) -> None:
        if not runners:
            raise InvalidInput("there is no agent to offer")
        self._runners = runners

    @property
    def agents(self) -> Mapping[str, str]:
        """Return what is offered: the agents' names and what they do."""
        return {
            name: runner.agent.description or f"Talk to the agent {name}."
            for name, runner in self._runners.items()
        }

    async def call(
        self, name: str, arguments: Mapping[str, Any], *, observer: RunObserver | None = None
    ) -> OfferedTurn:
        """Run one turn; what goes wrong in it is told and not raised, but for an unknown name."""
        runner = self._known(name)
        try:
            asked = msgspec.convert(arguments, OfferedCall)
            session_id = _session(asked.conversation_id) or runner.services.ids.new()
        except (msgspec.ValidationError, InvalidInput) as error:
            return _failed(str(error))
        note = ""
        try:
            if asked.conversation_id:
                note = await _note(runner, session_id)
            turn = await self._turn(runner, session_id, asked, observer)
        except SessionWaiting:
            waiting = await runner.pending(user_id=_USER, session_id=session_id)
            turn = _waits(session_id, waiting)
        except AccError as error:
            turn = _failed(f"{error.code}: {error}", session_id)
        return replace(turn, note=note) if note else turn

    async def waiting(self, name: str, conversation_id: str) -> OfferedTurn:
        """Return how a conversation waits, which is an error where it waits for nothing."""
        runner = self._known(name)
        found = await runner.pending(user_id=_USER, session_id=conversation_id)
        if found:
            return _waits(conversation_id, found)
        return _failed(f"the conversation {conversation_id} waits for nothing", conversation_id)

    async def aclose(self) -> None:
        """Let go of what the agents opened."""
        for runner in self._runners.values():
            await runner.aclose()

    def _known(self, name: str) -> SessionRunner:
        if name not in self._runners:
            raise NotFound(f"there is no tool {name!r}; there are: {', '.join(self._runners)}")
        return self._runners[name]

    async def _turn(
        self,
        runner: SessionRunner,
        session_id: str,
        asked: OfferedCall,
        observer: RunObserver | None,
    ) -> OfferedTurn:
        if asked.answers:
            given = [
                InputAnswer(
                    request_id=answer.request_id,
                    verdict=answer.verdict,
                    value=answer.value,
                    reason=answer.reason,
                    by=_USER,
                )
                for answer in asked.answers
            ]
            done = await runner.resume(
                user_id=_USER, session_id=session_id, answers=given, observer=observer
            )
        else:
            done = await runner.run(
                user_id=_USER, session_id=session_id, message=asked.message, observer=observer
            )
        if done.requests:
            return _waits(session_id, done.requests)
        return OfferedTurn(conversation_id=session_id, text=done.text, status=done.status.value)


def _session(given: str) -> str:
    if len(given) > _MOST_ID or not given.isprintable():
        raise InvalidInput(f"conversation_id is a line of at most {_MOST_ID} characters")
    return given


async def _note(runner: SessionRunner, session_id: str) -> str:
    """Return that a conversation is not known, as after a restart that it was not kept over."""
    if await runner.events(user_id=_USER, session_id=session_id, limit=1):
        return ""
    return f"There was no conversation {session_id}: nothing that was said before is known."


def _failed(text: str, session_id: str = "") -> OfferedTurn:
    return OfferedTurn(conversation_id=session_id, text=text, status="failed", is_error=True)


def _waits(session_id: str, requests: Sequence[InputRequest]) -> OfferedTurn:
    """Return that a conversation waits, in words that tell how to answer."""
    told = "\n".join(f"- {request.id}: {request.question}" for request in requests)
    text = (
        f"The conversation {session_id} waits for a person:\n{told}\n"
        f"Ask them, and call again with conversation_id and answers: request_id, verdict "
        f"({' or '.join(_VERDICTS)}), and value where something is asked for."
    )
    return OfferedTurn(
        conversation_id=session_id,
        text=text,
        status="input_required",
        requests=tuple(requests),
        is_error=True,
    )


def form(request: InputRequest) -> Mapping[str, Any] | None:
    """Return the schema of a form to answer with, None where a form must not or cannot ask it.

    Forms hold flat fields. Credentials never come as an answer.
    """
    if request.kind is RequestKind.AUTHORIZATION:
        return None
    if request.kind is RequestKind.CONFIRMATION:
        approve = {"type": "boolean", "title": "Approve", "description": request.message}
        reason = {"type": "string", "title": "Reason"}
        return _object({"approve": approve, "reason": reason}, ["approve"])
    fields = request.schema.get("properties", {})
    if fields and all(field.get("type") in _PLAIN for field in fields.values()):
        return _object(fields, list(request.schema.get("required", ())))
    return _object({"answer": {"type": "string", "description": request.message}}, ["answer"])


def _object(fields: Mapping[str, Any], required: list[str]) -> Mapping[str, Any]:
    return {"type": "object", "properties": dict(fields), "required": required}


def form_answer(
    request: InputRequest, action: str, content: Mapping[str, Any] | None
) -> dict[str, Any] | None:
    """Return what a person filled in as an answer to hand in, None where they put it off."""
    given = dict(content or {})
    if action == "decline":
        return {"request_id": request.id, "verdict": ApprovalDecision.DENY.value}
    if action != "accept":
        return None
    if request.kind is RequestKind.CONFIRMATION:
        verdict = (
            ApprovalDecision.APPROVE if given.get("approve") is True else ApprovalDecision.DENY
        )
        reason = str(given.get("reason", ""))
        return {"request_id": request.id, "verdict": verdict.value, "reason": reason}
    fields = request.schema.get("properties", {})
    value = given if "answer" not in given or "answer" in fields else given["answer"]
    return {"request_id": request.id, "value": value}


def progress_of(event: Event) -> str:
    """Return what an event means to who waits, or nothing; never what was said or given."""
    if event.kind is EventKind.PROGRESS:
        return f"{event.author}: {event.text}"[:_MOST_WORDS]
    if event.kind is EventKind.TOOL_CALLS:
        return f"{event.author} calls {', '.join(call.name for call in event.calls)}"[:_MOST_WORDS]
    if event.kind is EventKind.TRANSFER:
        return f"{event.author} hands over to {event.actions.transfer_to_agent}"
    if event.kind is EventKind.MESSAGE and event.author != "user":
        return f"{event.author} has answered"
    return ""


def standing_alone(agent: BaseAgent) -> BaseAgent:
    """Return an agent of a tree as the root of one of its own."""
    try:
        children = tuple(standing_alone(child) for child in agent.sub_agents)
        return dataclasses.replace(agent, sub_agents=children)
    except TypeError as error:
        raise InvalidInput(f"agent {agent.name!r} cannot be offered by itself: {error}") from None
