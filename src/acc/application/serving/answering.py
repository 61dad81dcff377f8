"""Reading a client's message as the answer to what a paused run asks."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from acc.domain.errors import InvalidInput
from acc.domain.value_objects.event import (
    InputAnswer,
    InputRequest,
    Part,
    RequestKind,
    Verdict,
    words,
)

_YES = re.compile(
    r"(?:^|[.!,;:\n。！、，]\s*)(?:"
    r"(?:yes|yep|yeah|ok|okay|sure|approved?|confirm(?:ed)?|accept(?:ed)?|agreed?|allow(?:ed)?"
    r"|proceed|continue|granted|go ahead|go on|do it|i (?:approve|confirm|agree|accept|allow))\b"
    r"|承認|承諾|許可|同意|了承|了解|はい|ええ|進めて|続けて|実行して|お願いします|問題ありません"
    r"|結構です|オーケー|おｋ|ＯＫ)",
    re.IGNORECASE,
)
_NO = re.compile(
    r"\b(?:no|nope|never|not|don'?t|do not|cannot|can'?t|won'?t|den(?:y|ied)|reject(?:ed)?"
    r"|refuse[ds]?|declined?|disapproved?|disallow(?:ed)?|stop|cancel(?:led|ed)?|abort(?:ed)?|wait"
    r"|hold on|unless|but)\b"
    r"|いいえ|いえ、|却下|拒否|拒絶|否認|不許可|不承認|不可|だめ|ダメ|駄目|中止|中断|停止|取り消|取消"
    r"|キャンセル|やめ|止め|待って|保留|お断り|しない|しません|できない|できません|ません|ないで|なら"
    r"|場合|ただし|でも|けど",
    re.IGNORECASE,
)
#: What says no beyond doubt; other words of doubt only keep a yes from counting.
_REFUSAL = re.compile(
    r"(?:^|[.!,;:\n。！、，]\s*)(?:"
    r"(?:no|nope|never|den(?:y|ied)|reject(?:ed)?|refused?|declined?|disapproved?|stop"
    r"|abort|cancel(?:led|ed)?|don'?t|do not|i (?:deny|reject|refuse|decline|disapprove"
    r"|do not (?:approve|agree|accept|allow)|don'?t (?:approve|agree|accept|allow))"
    r"|not approved)\b"
    r"|いいえ|却下|拒否|否認|不許可|不承認|不可|だめ|ダメ|駄目|中止|キャンセル|やめて|止めて|お断り"
    r"|(?:承認|承諾|許可|同意|了承|実行)(?:は)?(?:しない|しません|できない|できません))",
    re.IGNORECASE,
)
_QUESTION = re.compile(r"[?？]|ですか|ますか|でしょうか")

_VERDICTS = {
    "approve": Verdict.APPROVE,
    "approved": Verdict.APPROVE,
    "deny": Verdict.DENY,
    "denied": Verdict.DENY,
}


def verdict_of(text: str) -> Verdict | None:
    """Return what a text decides, None if that is not beyond doubt.

    A yes lets something happen that cannot be undone, so a question, a condition or a yes and a no
    in one breath are no decision.
    """
    if _QUESTION.search(text):
        return None
    if _REFUSAL.search(text):
        return None if _YES.search(_REFUSAL.sub("", text)) else Verdict.DENY
    if _YES.search(text) and not _NO.search(text):
        return Verdict.APPROVE
    return None


def read_answers(
    parts: Sequence[Part], requests: Sequence[InputRequest], *, by: str
) -> tuple[InputAnswer, ...]:
    """Return the answers that a message gives to requests; none if it decides nothing.

    Data is `{"requestId", "verdict", "arguments", "value", "reason"}`, or a list of those under
    "answers". InvalidInput where data cannot be read as that.
    """
    entries = [part.data for part in parts if isinstance(part.data, Mapping)]
    if entries:
        return tuple(
            answer
            for entry in entries
            for one in _several(entry)
            for answer in _from_data(one, requests, by)
        )
    text = words(parts).strip()
    return tuple(
        answer
        for request in requests
        if (answer := _from_text(text, request, len(requests), by)) is not None
    )


def _several(entry: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    answers = entry.get("answers", [entry])
    if not isinstance(answers, list) or not all(isinstance(one, Mapping) for one in answers):
        raise InvalidInput('"answers" is a list of objects with "requestId" and "verdict"')
    return answers


def _from_data(
    entry: Mapping[str, Any], requests: Sequence[InputRequest], by: str
) -> tuple[InputAnswer, ...]:
    request = _request_of(entry, requests)
    verdict = _verdict_in(entry, request)
    arguments = entry.get("arguments")
    if arguments is not None and not isinstance(arguments, Mapping):
        raise InvalidInput(f'"arguments" of the answer to {request.id} is an object')
    value = entry.get("value")
    if request.kind in (RequestKind.INPUT, RequestKind.OUTCOME) and value is None and _free(entry):
        value = dict(entry)  # the data itself is what was asked for
    return (
        InputAnswer(
            request_id=request.id,
            verdict=verdict,
            arguments=arguments,
            value=value,
            reason=str(entry.get("reason", "")),
            by=by,
        ),
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


def _verdict_in(entry: Mapping[str, Any], request: InputRequest) -> Verdict:
    given = entry.get("verdict", entry.get("approved"))
    if isinstance(given, bool):
        return Verdict.APPROVE if given else Verdict.DENY
    if given is None and request.kind is not RequestKind.CONFIRMATION:
        return Verdict.APPROVE
    if isinstance(given, str) and given.lower() in _VERDICTS:
        return _VERDICTS[given.lower()]
    raise InvalidInput(f'"verdict" of the answer to {request.id} is "approve" or "deny"')


def _from_text(text: str, request: InputRequest, waiting: int, by: str) -> InputAnswer | None:
    if request.kind is RequestKind.AUTHORIZATION:
        # The credentials came another way; the message says no more than that it is time to go on.
        verdict = Verdict.DENY if verdict_of(text) is Verdict.DENY else Verdict.APPROVE
        return InputAnswer(request_id=request.id, verdict=verdict, by=by)
    if request.kind is RequestKind.CONFIRMATION:
        decided = verdict_of(text)
        if decided is None:
            return None
        reason = text if decided is Verdict.DENY else ""
        return InputAnswer(request_id=request.id, verdict=decided, reason=reason, by=by)
    if waiting > 1 or not text:
        return None  # whose answer it would be is not told
    return InputAnswer(request_id=request.id, value=text, by=by)
