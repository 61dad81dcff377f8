"""Reading a client's message as the answer to what a paused run asks."""

from collections.abc import Mapping, Sequence
from typing import Any

from acc.application.serving.verdicts import sign_in_of, verdict_of
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.event import (
    InputAnswer,
    InputRequest,
    Part,
    RequestKind,
    Verdict,
)

#: What is answered with a value, and not by a yes or no.
_FREE = (RequestKind.INPUT, RequestKind.OUTCOME)
_VERDICTS = {
    "approve": Verdict.APPROVE,
    "approved": Verdict.APPROVE,
    "deny": Verdict.DENY,
    "denied": Verdict.DENY,
}


def read_answers(
    parts: Sequence[Part], requests: Sequence[InputRequest], *, by: str
) -> tuple[InputAnswer, ...]:
    """Return the answers that a message gives to requests; none if it decides nothing.

    Data is `{"requestId", "verdict", "arguments", "value", "reason"}`, or a list of those under
    "answers". InvalidInput where data cannot be read as that. Words beside it that say the opposite
    leave everything undecided.
    """
    text = "\n".join(part.text for part in parts if part.text is not None).strip()
    entries = [part.data for part in parts if isinstance(part.data, Mapping)]
    if entries:
        several = [one for entry in entries for one in _several(entry)]
        answers = [_from_data(one, requests, text, by) for one in several]
        if len({answer.request_id for answer in answers}) < len(answers):
            raise InvalidInput("a message holds one answer to each request, and not two")
        return () if _is_contradicted(answers, requests, text) else tuple(answers)
    values = [part.data for part in parts if part.data is not None]
    if len(values) == len(requests) == 1 and requests[0].kind in _FREE:
        return (InputAnswer(request_id=requests[0].id, value=values[0], by=by),)
    return tuple(
        answer
        for request in requests
        if (answer := _from_text(text, request, len(requests), by)) is not None
    )


def _is_contradicted(
    answers: Sequence[InputAnswer], requests: Sequence[InputRequest], text: str
) -> bool:
    """Tell whether words say yes where data says no, or no where it says yes."""
    said = {one.id: _said(text, one) for one in requests}
    return any(said[one.request_id] not in (None, one.verdict) for one in answers)


def _said(text: str, request: InputRequest) -> Verdict | None:
    """Return what words decide of a request, None for one that is not decided by a yes or no."""
    if request.kind is RequestKind.AUTHORIZATION:
        # The credentials take another way; the words say no more than whether it is time to go on.
        return sign_in_of(text)
    return verdict_of(text) if request.kind is RequestKind.CONFIRMATION else None


def _several(entry: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    answers = entry.get("answers", [entry])
    if not isinstance(answers, list) or not all(isinstance(one, Mapping) for one in answers):
        raise InvalidInput('"answers" is a list of objects with "requestId" and "verdict"')
    return answers


def _from_data(
    entry: Mapping[str, Any], requests: Sequence[InputRequest], text: str, by: str
) -> InputAnswer:
    request = _request_of(entry, requests)
    verdict = _verdict_in(entry, request, text)
    arguments = entry.get("arguments")
    if arguments is not None and not isinstance(arguments, Mapping):
        raise InvalidInput(f'"arguments" of the answer to {request.id} is an object')
    value = entry.get("value")
    if request.kind in _FREE and value is None and _free(entry):
        value = dict(entry)  # the data itself is what was asked for
    return InputAnswer(
        request_id=request.id,
        verdict=verdict,
        arguments=arguments,
        value=value,
        reason=str(entry.get("reason", "")),
        by=by,
    )


def _free(entry: Mapping[str, Any]) -> bool:
    return not {"requestId", "verdict", "value", "approved", "arguments"} & entry.keys()


def _request_of(entry: Mapping[str, Any], requests: Sequence[InputRequest]) -> InputRequest:
    wanted = entry.get("requestId")
    if wanted is None and len(requests) == 1:
        return requests[0]
    for request in requests:
        if request.id == wanted:
            return request
    known = ", ".join(request.id for request in requests)
    raise InvalidInput(f'"requestId" must be one of those that wait: {known}')


def _verdict_in(entry: Mapping[str, Any], request: InputRequest, text: str) -> Verdict:
    given = entry.get("verdict", entry.get("approved"))
    if given is None and request.kind is RequestKind.AUTHORIZATION:
        decided = sign_in_of(text)  # words beside data that leaves it open
        if decided is not None:
            return decided
    if isinstance(given, bool):
        return Verdict.APPROVE if given else Verdict.DENY
    if given is None and request.kind in _FREE:
        return Verdict.APPROVE
    if isinstance(given, str) and given.lower() in _VERDICTS:
        return _VERDICTS[given.lower()]
    raise InvalidInput(f'"verdict" of the answer to {request.id} is "approve" or "deny"')


def _from_text(text: str, request: InputRequest, waiting: int, by: str) -> InputAnswer | None:
    if request.kind not in _FREE:
        decided = _said(text, request)
        if decided is None:
            return None
        reason = text if decided is Verdict.DENY else ""
        return InputAnswer(request_id=request.id, verdict=decided, reason=reason, by=by)
    if waiting > 1 or not text:
        return None  # whose answer it would be is not told
    return InputAnswer(request_id=request.id, value=text, by=by)
