"""Read the answers to the requests of a paused run from a message."""

import re
from collections.abc import Mapping, Sequence
from typing import Any
from unicodedata import normalize

from acc.domain.errors import InvalidInput
from acc.domain.value_objects.approval import (
    ApprovalDecision,
    InputAnswer,
    InputRequest,
    RequestKind,
)
from acc.domain.value_objects.content import Part

_APPROVE = """
    yes|yep|yeah|yup|y|ok|okay|sure|sure thing|of course|certainly|absolutely|definitely|yes please
    approve|approved|approve it|approve this|approve that|approve both|approve all|approve them
    i approve|i approve it|i approve this|i approve both|i approve all|we approve|it is approved
    i approve the payment|i approve this payment|i approve the request|i approve this request
    confirm|confirmed|i confirm|accept|accepted|i accept|agree|agreed|i agree|allow|allowed|allow it
    i allow it|authorize|authorized|authorise|authorised|granted|permission granted
    proceed|please proceed|you may proceed|continue|please continue|go ahead|please go ahead
    go ahead and do it|go for it|do it|please do|do so|looks good|looks good to me|lgtm|sounds good
    that is fine|that's fine|that is ok|that's ok
    はい|ええ|うん|okです|オーケー|オーケーです|もちろん|もちろんです|いいですよ
    承認|承認する|承認します|承認しました|承認いたします|承認です|すべて承認します|全て承認します
    許可|許可します|許可しました|許可いたします|承諾|承諾します|同意|同意します|了承しました|了承します
    実行してください|続行してください|進めてください|続けてください|このまま進めてください
    処理を実行してください|処理を進めてください|処理を続けてください|お願いします|よろしくお願いします
    問題ありません|構いません|かまいません
"""
_DENY = """
    no|nope|nah|n|never|no thanks|no thank you|no way|absolutely not|certainly not|of course not
    deny|denied|deny it|deny this|deny both|deny all|i deny|i deny it|i deny the request
    reject|rejected|reject it|i reject|i reject it|refuse|refused|i refuse|decline|declined
    i decline|disapprove|disapproved|i disapprove|disagree|i disagree|not approved|not allowed
    do not approve|don't approve|i do not approve|i don't approve|i cannot approve|i can't approve
    do not approve it|don't approve it|i do not approve this|i don't approve this
    do not proceed|don't proceed|do not continue|don't continue|do not do it|don't do it
    please don't|please do not|do not pay|don't pay|stop|stop it|cancel|cancel it|canceled|cancelled
    abort|aborted
    いいえ|いえ|いや|だめ|だめです|ダメ|ダメです|駄目です|却下|却下する|却下します|却下しました|却下です
    拒否|拒否する|拒否します|拒否しました|否認します|不許可|不許可です|不承認|不承認です
    承認しません|承認できません|許可しません|許可できません|同意しません|同意できません
    中止|中止します|中止してください|キャンセル|キャンセルします|キャンセルしてください
    やめて|やめてください|やめます|止めてください|取り消してください|お断りします
    実行しないでください|進めないでください|続けないでください
"""
_SIGNED_IN = """
    done|all done|i'm done|i am done|finished|complete|completed|ready|all set|successful
    signed in|logged in|i signed in|i logged in|i have signed in|i have logged in|i've signed in
    i've logged in|i am signed in|i am logged in|i'm signed in|i'm logged in|yes i logged in
    just signed in|just logged in|already signed in|already logged in|successfully signed in
    successfully logged in|authenticated|i have authenticated|i have authorized it
    i authorized it|access granted|i granted access|login complete|login successful
    sign-in complete|sign-in successful|try again|please try again|retry|please retry|resume|go on
    完了|完了しました|完了です|終わりました|済みです|済みました|できました
    ログインしました|ログインできました|ログイン済みです|ログイン完了|ログインが完了しました
    サインインしました|サインインできました|サインイン済みです|サインインが完了しました
    認証しました|認証できました|認証済みです|認証が完了しました|手続きが完了しました
    再開してください|再試行してください|もう一度試してください|もう一度お願いします
"""
#: Courtesies that do not change a decision.
_NEUTRAL = """
    thanks|thank you|thank you very much|no problem
    ありがとう|ありがとうございます|了解|了解です|了解しました|わかりました|承知しました
"""


def _phrases(table: str) -> frozenset[str]:
    return frozenset(phrase.strip() for phrase in table.strip().replace("\n", "|").split("|"))


_IGNORED = _phrases(_NEUTRAL) | {""}
_APPROVAL_PHRASES: Mapping[str, ApprovalDecision] = {
    **dict.fromkeys(_phrases(_APPROVE), ApprovalDecision.APPROVE),
    **dict.fromkeys(_phrases(_DENY), ApprovalDecision.DENY),
}
_SIGN_IN_PHRASES: Mapping[str, ApprovalDecision] = {
    **_APPROVAL_PHRASES,
    **dict.fromkeys(_phrases(_SIGNED_IN), ApprovalDecision.APPROVE),
}
_MAX_TEXT_LENGTH = 200
_QUOTES = str.maketrans({"’": "'", "‘": "'", "「": " ", "」": " ", "『": " ", "』": " ", '"': " "})
_CLAUSE_END = re.compile(r"[.,!;:\n。、]")
#: Requests that are answered with a value instead of a decision.
_VALUE_KINDS = (RequestKind.INPUT, RequestKind.OUTCOME)
_DECISIONS = {
    "approve": ApprovalDecision.APPROVE,
    "approved": ApprovalDecision.APPROVE,
    "deny": ApprovalDecision.DENY,
    "denied": ApprovalDecision.DENY,
}
_ANSWER_FIELDS = frozenset({"requestId", "verdict", "value", "approved", "arguments"})


def parse_approval(text: str) -> ApprovalDecision | None:
    """Return the decision of a text, None if it contains anything but known phrases."""
    return _parse(text, _APPROVAL_PHRASES)


def parse_sign_in(text: str) -> ApprovalDecision | None:
    """Return APPROVE if a text states that a sign-in is done, DENY if it is refused."""
    return _parse(text, _SIGN_IN_PHRASES)


def _parse(text: str, phrases: Mapping[str, ApprovalDecision]) -> ApprovalDecision | None:
    decisions = {phrases.get(clause) for clause in _clauses(text) if clause not in _IGNORED}
    return decisions.pop() if len(decisions) == 1 else None


def _clauses(text: str) -> list[str]:
    text = normalize("NFKC", text).translate(_QUOTES).lower()
    if len(text) > _MAX_TEXT_LENGTH or ".." in text:  # an ellipsis expresses doubt
        return [text]
    return [" ".join(clause.split()) for clause in _CLAUSE_END.split(text)]


def read_answers(
    parts: Sequence[Part], requests: Sequence[InputRequest], *, by: str
) -> tuple[InputAnswer, ...]:
    """Return the answers of a message to requests; empty if it decides nothing.

    Data is `{"requestId", "verdict", "arguments", "value", "reason"}`, or a list of such objects
    under "answers"; other data raises InvalidInput. Text that contradicts the data leaves
    everything undecided.
    """
    text = "\n".join(part.text for part in parts if part.text is not None).strip()
    objects = [part.data for part in parts if isinstance(part.data, Mapping)]
    if objects:
        entries = [entry for item in objects for entry in _entries(item)]
        answers = [_answer_from_data(entry, requests, text, by) for entry in entries]
        if len({answer.request_id for answer in answers}) < len(answers):
            raise InvalidInput("a message must contain at most one answer to each request")
        return () if _is_contradicted(answers, requests, text) else tuple(answers)
    values = [part.data for part in parts if part.data is not None]
    if len(values) == len(requests) == 1 and requests[0].kind in _VALUE_KINDS:
        return (InputAnswer(request_id=requests[0].id, value=values[0], by=by),)
    return tuple(
        answer
        for request in requests
        if (answer := _answer_from_text(text, request, len(requests), by)) is not None
    )


def _is_contradicted(
    answers: Sequence[InputAnswer], requests: Sequence[InputRequest], text: str
) -> bool:
    """Return True if a clause of the text has another decision than the data."""
    phrases = {request.id: _phrases_for(request) for request in requests}
    return any(
        phrases[answer.request_id].get(clause, answer.verdict) is not answer.verdict
        for answer in answers
        for clause in _clauses(text)
    )


def _phrases_for(request: InputRequest) -> Mapping[str, ApprovalDecision]:
    if request.kind is RequestKind.AUTHORIZATION:
        return _SIGN_IN_PHRASES
    return _APPROVAL_PHRASES if request.kind is RequestKind.CONFIRMATION else {}


def _entries(item: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    answers = item.get("answers", [item])
    if not isinstance(answers, list) or not all(isinstance(one, Mapping) for one in answers):
        raise InvalidInput('"answers" must be a list of objects with "requestId" and "verdict"')
    return answers


def _answer_from_data(
    entry: Mapping[str, Any], requests: Sequence[InputRequest], text: str, by: str
) -> InputAnswer:
    request = _find_request(entry, requests)
    decision = _decision_in(entry, request, text)
    arguments = entry.get("arguments")
    if arguments is not None and not isinstance(arguments, Mapping):
        raise InvalidInput(f'"arguments" of the answer to {request.id} must be an object')
    value = entry.get("value")
    if request.kind in _VALUE_KINDS and value is None and not _ANSWER_FIELDS & entry.keys():
        value = dict(entry)  # the data itself is the value
    return InputAnswer(
        request_id=request.id,
        verdict=decision,
        arguments=arguments,
        value=value,
        reason=str(entry.get("reason", "")),
        by=by,
    )


def _find_request(entry: Mapping[str, Any], requests: Sequence[InputRequest]) -> InputRequest:
    request_id = entry.get("requestId")
    if request_id is None and len(requests) == 1:
        return requests[0]
    for request in requests:
        if request.id == request_id:
            return request
    pending = ", ".join(request.id for request in requests)
    raise InvalidInput(f'"requestId" must be one of the pending requests: {pending}')


def _decision_in(entry: Mapping[str, Any], request: InputRequest, text: str) -> ApprovalDecision:
    value = entry.get("verdict", entry.get("approved"))
    if value is None and request.kind is RequestKind.AUTHORIZATION:
        decision = parse_sign_in(text)
        if decision is not None:
            return decision
    if isinstance(value, bool):
        return ApprovalDecision.APPROVE if value else ApprovalDecision.DENY
    if value is None and request.kind in _VALUE_KINDS:
        return ApprovalDecision.APPROVE
    if isinstance(value, str) and value.lower() in _DECISIONS:
        return _DECISIONS[value.lower()]
    raise InvalidInput(f'"verdict" of the answer to {request.id} must be "approve" or "deny"')


def _answer_from_text(
    text: str, request: InputRequest, pending: int, by: str
) -> InputAnswer | None:
    if request.kind not in _VALUE_KINDS:
        decision = _parse(text, _phrases_for(request))
        if decision is None:
            return None
        reason = text if decision is ApprovalDecision.DENY else ""
        return InputAnswer(request_id=request.id, verdict=decision, reason=reason, by=by)
    if pending > 1 or not text:
        return None  # the text does not say which request it answers
    return InputAnswer(request_id=request.id, value=text, by=by)
