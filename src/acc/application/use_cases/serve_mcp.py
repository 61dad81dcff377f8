"""Serve agents as tools of MCP clients: one call is one turn of a conversation."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from acc.application.agents.base import BaseAgent
from acc.application.runtime.run import RunObserver
from acc.application.runtime.runner import SessionRunner
from acc.domain.errors import AccError, InvalidInput, InvalidTree, NotFound, SessionWaiting
from acc.domain.value_objects.approval import (
    ApprovalDecision,
    InputAnswer,
    InputRequest,
    RequestKind,
)
from acc.domain.value_objects.event import Event, EventKind

USER_ID = "mcp"
MAX_CONVERSATION_ID_LENGTH = 128
MAX_PROGRESS_LENGTH = 300
_FORM_TYPES = frozenset({"string", "number", "integer", "boolean"})
_DECISIONS = [ApprovalDecision.APPROVE.value, ApprovalDecision.DENY.value]
#: The arguments of a call.
CALL_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "message": {"type": "string", "description": "The message to the agent."},
        "conversation_id": {
            "type": "string",
            "description": "The conversation to continue, as returned by an earlier call. Without "
            "it a new conversation starts.",
        },
        "answers": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "request_id": {"type": "string"},
                    "verdict": {"type": "string", "enum": _DECISIONS},
                    "value": {"description": "The requested value, if one was requested."},
                    "reason": {"type": "string"},
                },
                "required": ["request_id"],
            },
            "description": "Answers of a person to the pending requests of the conversation, "
            "instead of a message.",
        },
    },
}
#: The structured result of a call.
RESULT_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "answer": {"type": "string"},
        "conversation_id": {"type": "string"},
        "status": {"type": "string"},
        "note": {
            "type": "string",
            "description": "Set if the conversation to continue does not exist.",
        },
    },
    "required": ["answer", "conversation_id", "status"],
}


class CallAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An answer of a person in the arguments of a call."""

    request_id: str
    verdict: ApprovalDecision = ApprovalDecision.APPROVE
    value: Any = None
    reason: str = ""


class CallArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of a call, as in CALL_SCHEMA."""

    message: str = ""
    conversation_id: str = ""
    answers: tuple[CallAnswer, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnResult:
    """The result of a call. If it has `requests`, the conversation waits for a person.

    `note` is information for the client besides the answer.
    """

    conversation_id: str
    text: str
    status: str
    requests: tuple[InputRequest, ...] = ()
    is_error: bool = False
    note: str = ""


class ServeMcpUseCase:
    """Runs turns of agents for MCP clients and continues conversations."""

    def __init__(self, runners: Mapping[str, SessionRunner]) -> None:
        if not runners:
            raise InvalidInput("at least one agent is required")
        self._runners = runners

    @property
    def agents(self) -> Mapping[str, str]:
        """Return the names and descriptions of the agents."""
        return {
            name: runner.agent.description or f"Talk to the agent {name}."
            for name, runner in self._runners.items()
        }

    async def call(
        self, name: str, arguments: Mapping[str, Any], *, observer: RunObserver | None = None
    ) -> TurnResult:
        """Run one turn; errors become the result, except NotFound for an unknown name."""
        runner = self._runner(name)
        try:
            call = msgspec.convert(arguments, CallArguments)
            _check_conversation_id(call.conversation_id)
        except (msgspec.ValidationError, InvalidInput) as error:
            return _failed(str(error))
        session_id = call.conversation_id or runner.services.ids.new()
        note = ""
        try:
            if call.conversation_id:
                note = await _missing_conversation_note(runner, session_id)
            turn = await _run_turn(runner, session_id, call, observer)
        except SessionWaiting:
            requests = await runner.pending(user_id=USER_ID, session_id=session_id)
            turn = _waiting(session_id, requests)
        except AccError as error:
            turn = _failed(f"{error.code}: {error}", session_id)
        return replace(turn, note=note) if note else turn

    async def pending(self, name: str, conversation_id: str) -> TurnResult:
        """Return the pending requests of a conversation; it is an error if there are none."""
        runner = self._runner(name)
        requests = await runner.pending(user_id=USER_ID, session_id=conversation_id)
        if requests:
            return _waiting(conversation_id, requests)
        error = f"conversation {conversation_id} has no pending requests"
        return _failed(error, conversation_id)

    async def aclose(self) -> None:
        """Close the runners."""
        for runner in self._runners.values():
            await runner.aclose()

    def _runner(self, name: str) -> SessionRunner:
        if name not in self._runners:
            raise NotFound(f"tool {name!r} not found; tools: {', '.join(self._runners)}")
        return self._runners[name]


def form_schema(request: InputRequest) -> Mapping[str, Any] | None:
    """Return the schema of a form for a request, or None if no form is possible.

    Forms have flat fields. Credentials must not be entered in a form.
    """
    if request.kind is RequestKind.AUTHORIZATION:
        return None
    if request.kind is RequestKind.CONFIRMATION:
        approve = {"type": "boolean", "title": "Approve", "description": request.message}
        reason = {"type": "string", "title": "Reason"}
        return _object_schema({"approve": approve, "reason": reason}, ["approve"])
    fields = request.schema.get("properties", {})
    if fields and all(field.get("type") in _FORM_TYPES for field in fields.values()):
        return _object_schema(fields, list(request.schema.get("required", ())))
    answer = {"type": "string", "description": request.message}
    return _object_schema({"answer": answer}, ["answer"])


def form_answer(
    request: InputRequest, action: str, content: Mapping[str, Any] | None
) -> dict[str, Any] | None:
    """Return a submitted form as an answer, or None if the person cancelled it."""
    fields = dict(content or {})
    if action == "decline":
        return {"request_id": request.id, "verdict": ApprovalDecision.DENY.value}
    if action != "accept":
        return None
    if request.kind is RequestKind.CONFIRMATION:
        is_approved = fields.get("approve") is True
        decision = ApprovalDecision.APPROVE if is_approved else ApprovalDecision.DENY
        reason = str(fields.get("reason", ""))
        return {"request_id": request.id, "verdict": decision.value, "reason": reason}
    is_object = "answer" not in fields or "answer" in request.schema.get("properties", {})
    return {"request_id": request.id, "value": fields if is_object else fields["answer"]}


def progress_text(event: Event) -> str:
    """Return an event as a progress message without content, or an empty string."""
    if event.kind is EventKind.PROGRESS:
        return f"{event.author}: {event.text}"[:MAX_PROGRESS_LENGTH]
    if event.kind is EventKind.TOOL_CALLS:
        names = ", ".join(call.name for call in event.calls)
        return f"{event.author} calls {names}"[:MAX_PROGRESS_LENGTH]
    if event.kind is EventKind.TRANSFER:
        return f"{event.author} transfers to {event.actions.transfer_to_agent}"
    if event.kind is EventKind.MESSAGE and event.author != "user":
        return f"{event.author} has answered"
    return ""


def served_agents(agent: BaseAgent, *, sub_agents: bool) -> list[BaseAgent]:
    """Return the agents that are tools of a server: the root, or each agent of the tree."""
    if not sub_agents:
        return [agent]
    return [agent, *(detached_copy(child) for child in agent.walk() if child is not agent)]


def detached_copy(agent: BaseAgent) -> BaseAgent:
    """Return a copy of an agent and its descendants as the root of a new tree."""
    try:
        children = tuple(detached_copy(child) for child in agent.sub_agents)
        return dataclasses.replace(agent, sub_agents=children)
    except (TypeError, InvalidTree) as error:
        raise InvalidInput(f"agent {agent.name!r} cannot be served separately: {error}") from None


async def _run_turn(
    runner: SessionRunner, session_id: str, call: CallArguments, observer: RunObserver | None
) -> TurnResult:
    if call.answers:
        answers = [
            InputAnswer(
                request_id=answer.request_id,
                verdict=answer.verdict,
                value=answer.value,
                reason=answer.reason,
                by=USER_ID,
            )
            for answer in call.answers
        ]
        result = await runner.resume(
            user_id=USER_ID, session_id=session_id, answers=answers, observer=observer
        )
    else:
        result = await runner.run(
            user_id=USER_ID, session_id=session_id, message=call.message, observer=observer
        )
    if result.requests:
        return _waiting(session_id, result.requests)
    return TurnResult(conversation_id=session_id, text=result.text, status=result.status.value)


def _check_conversation_id(conversation_id: str) -> None:
    if len(conversation_id) > MAX_CONVERSATION_ID_LENGTH or not conversation_id.isprintable():
        raise InvalidInput(
            f"conversation_id must be printable and have at most {MAX_CONVERSATION_ID_LENGTH} "
            "characters"
        )


async def _missing_conversation_note(runner: SessionRunner, session_id: str) -> str:
    """Return a note if a conversation does not exist, for example after a restart."""
    if await runner.events(user_id=USER_ID, session_id=session_id, limit=1):
        return ""
    return f"Conversation {session_id} does not exist; earlier messages are unknown."


def _failed(text: str, session_id: str = "") -> TurnResult:
    return TurnResult(conversation_id=session_id, text=text, status="failed", is_error=True)


def _waiting(session_id: str, requests: Sequence[InputRequest]) -> TurnResult:
    """Return the pending requests with instructions how to answer them."""
    questions = "\n".join(f"- {request.id}: {request.question}" for request in requests)
    text = (
        f"Conversation {session_id} waits for a person:\n{questions}\n"
        "Ask the person, then call again with conversation_id and answers: request_id, verdict "
        f"({' or '.join(_DECISIONS)}), and value if one is requested."
    )
    return TurnResult(
        conversation_id=session_id,
        text=text,
        status="input_required",
        requests=tuple(requests),
        is_error=True,
    )


def _object_schema(fields: Mapping[str, Any], required: list[str]) -> Mapping[str, Any]:
    return {"type": "object", "properties": dict(fields), "required": required}
