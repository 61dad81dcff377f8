"""Reading a client's message as the answer to what a paused run asks."""

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

_MOST = 2000
_SAYING_YES = (
    r"yes|yep|yeah|yup|y|ok|okay|sure(?: thing)?|absolutely|definitely|certainly|of course"
    r"|by all means|sounds good|(?:it |this |that )?looks good(?: to me)?|lgtm"
    r"|(?:that is|that's|it is|it's) (?:ok|okay|fine|approved|confirmed)"
)
_DECIDED = r"approved|confirmed|accepted|agreed|granted|allowed|permission granted"
_DECIDING = r"approve|confirm|accept|agree|allow|authori[sz]e"
_LETTING = r"proceed|continue|go ahead|go for it|do it|do so|do that"
_OBJECT = (
    r"(?: (?:to )?(?:it|this|that|them|both|all|everything)"
    r"|(?: with)? (?:the|this|that|these|those|both|all)(?: \d+)? (?:payment|transfer|transaction"
    r"|request|action|operation|call|step|plan|change|purchase|order|deletion|message)s?)?"
)
#: A sentence that says yes and nothing else; one word too many could be a condition.
_YES_ENGLISH = re.compile(
    rf"(?:(?:{_SAYING_YES})(?: then)? (?:and |so )?)*"
    r"(?:"
    rf"(?:{_SAYING_YES})(?: please| then| thanks| thank you)?"
    rf"|(?:{_DECIDED})(?: then| thanks)?"
    rf"|(?:(?:i|we) (?:hereby |do )?)?(?:{_DECIDING}){_OBJECT}(?: (?:and|so) (?:{_LETTING}))?"
    rf"|(?:(?:please|you may|you can|then|and|so) )*(?:{_LETTING}){_OBJECT}"
    rf"(?: and (?:{_LETTING}))?(?: please| now| then)?"
    r"|please do"
    r")"
)
_JAPANESE_THING = (
    r"(?:この|その|これらの)?(?:処理|手続き|作業|操作|お?支払い?|送金|取引|注文|購入|変更"
    r"|削除|送信)"
)
_JAPANESE_OBJECT = rf"(?:{_JAPANESE_THING}を)?(?:このまま|そのまま)?"
_YES_JAPANESE = re.compile(
    r"(?!はいはい|ええええ)(?:はい|ええ|うん)?(?:それで|これで|では|どうぞ|すべて|全て|全部|両方(?:とも)?|この件は?)?(?:"
    r"はい|ええ|ok(?:です|だ)?(?:よ|ね)?|オーケー(?:です)?|イエス"
    r"|(?:承認|承諾|許可|同意|了承|認可)(?:する|します|しました|した|いたします|致します|です|済み(?:です)?)?"
    r"|(?:認め|許し)ます"
    rf"|{_JAPANESE_OBJECT}(?:実行|続行)(?:して)?"
    r"(?:ください|下さい|いいです|いいですよ|よいです|構いません|かまいません|ok|okです)"
    r"|(?:実行|続行)(?:を|で)?お願いします"
    rf"|{_JAPANESE_OBJECT}(?:進めて|続けて|やって|行って|支払って|送って|そうして)"
    r"(?:ください|下さい|いいです|いいですよ|よいです|構いません|かまいません|ok|okです)"
    r"|(?:進めて|続けて|やって|そうして)|(?:よろしく)?お願い(?:します|いたします|致します)"
    r"|問題(?:あり|ござい)ません|問題ない(?:です)?|異議(?:あり)?ません|異議なし|構いません|かまいません"
    r"|いいですよ|いいですとも|もちろん(?:です)?"
    r")"
)
_FILLER = re.compile(
    r"thanks|thank you(?: very much| so much)?|please|no (?:problem|objections?|issues?)"
    r"|了解(?:です|しました|いたしました)?|わかりました|承知しました|ありがとう(?:ございます)?"
)
#: A wish to have it approved may come from who wants it and not from who decides.
_PLEADING = re.compile(r"\b(?:please|kindly)\b")
_PLEADED = re.compile(rf"\b(?:{_DECIDING})\b")
_YES_WORD = re.compile(
    r"\b(?:yes|yep|yeah|yup|ok|okay|sure|approve[ds]?|confirm(?:ed|s)?|accept(?:ed|s)?|agree[ds]?"
    r"|allow(?:ed|s)?|proceed|continue|grant(?:ed)?|go ahead|do it|just do|lgtm)\b"
    r"|(?<!不)(?:承認|承諾|許可|同意)|了承|はい|進めて|続けて|実行して|問題あり?ません|構いません|かまいません|オーケー"
)
_NEGATED_YES = re.compile(
    r"\b(?:do not|don't|dont|never|not|cannot|can't|cant|won't|wont|will not|would not|wouldn't"
    r"|shall not|must not|mustn't|may not|refuse to|decline to)(?: \w+)? "
    r"(?:approved?|confirm(?:ed)?|accept(?:ed)?|agreed?|allow(?:ed)?|proceed|continue|go ahead"
    r"|do it|ok|okay|granted?)\b"
    r"|(?:承認|承諾|許可|同意|了承|実行|続行|賛成)(?:は|を|が|に)?(?:し|いたし|致し|でき|出来|出せ|得られ)?"
    r"(?:ない(?:で(?:ください|下さい)?|です)?|ません|かね(?:ます|る)|たくない(?:です)?|たくありません)"
    r"|(?:進め|続け|やら|実行し|行わ|支払わ|払わ|送ら)(?:ないで(?:ください|下さい)?|ません)"
    r"|(?:承認|許可|同意|実行|続行|送金)するな|(?:進める|続ける|やる|行う|支払う|払う|送る)な"
)
#: A no that is denied itself, or a word of it that means something else.
_NO_DOUBTED = re.compile(
    r"\b(?:do not|don't|dont|never|not|can't|cant|cannot|won't|wont|no need to|no reason to|stop)"
    r"(?: \w+)? (?:deny|denying|reject|rejecting|refuse|refusing|decline|declining|stop|cancel"
    r"|abort|block|no)\b|\bstop \w+ing\b|\bnever ?mind\b"
    r"|(?:却下|拒否|拒絶|否認|中止|中断|停止|キャンセル|取り?消し?|やめ|止め|断り?)"
    r"(?:は|を|に|も)?(?:し|でき|られ|さ|せ)?(?:ない|ません|なくて|ず|ろとは)"
    r"|(?:不許可|不承認|不可|だめ|ダメ|駄目)(?:では|じゃ|で)な"
)
#: What something is done to, or why: after these words a no is still one.
_REFUSED = (
    r"(?: (?:it|this|that|them|both|all|everything|these|those|the|my|our|because|since|as|due"
    r"|for|please|now|payment|transfer|request)\b.*)?"
)
_DOING = (
    r"(?: (?:do|pay|send|run|execute|make|transfer|delete|remove|buy|order|call|book|submit|process"
    r"|perform|carry|let|go|want|wish|touch|change|release|publish|charge|bother)\b.*)?"
)
_NO_ENGLISH = re.compile(
    r"(?:and |so |then |sorry |well )*(?:"
    r"(?:no|nope|nah|n)(?=$| thanks| thank you| way$| sorry| i | we | do | don't | please| not "
    r"| never| stop| it's | it is | this | that | the ).*"
    rf"|never{_DOING}|(?:absolutely|certainly|definitely|of course) not?"
    r"|(?:(?:i|we) (?:hereby |do |must |have to )?|please )?(?:deny|reject|refuse|decline"
    rf"|disapprove|disagree|disallow|stop|abort|cancel|block){_REFUSED}"
    r"|(?:i|we) refuse to\b.*"
    r"|(?:denied|rejected|refused|declined|disapproved|disallowed|cancell?ed|aborted)"
    r"(?: (?:because|since|as|due|by|please|thanks)\b.*)?"
    rf"|(?:(?:i|we|please) )?(?:don't|dont|do not){_DOING}"
    r"|(?:(?:please|i|we|it is|it's|this is|that is|that's) )?NOYES\b.*)"
)
#: A no to one thing, and in the same breath another to be done.
_YET = re.compile(
    r"\b(?:and|then|but|just) (?:please )?(?:pay|send|do(?! not)|run|make|transfer|buy|order|book"
    r"|add|use|go)\b"
)
_SAID_SO = (
    r"(?:です|だ|します|する|しました|した|とします|にします|いたします|致します|願います"
    r"|(?:で|を)お願い(?:します|いたします|致します)"
    r"|(?:に)?して(?:おいて)?(?:ください|下さい|ほしい(?:です)?|欲しい(?:です)?)?)?(?:よ|ね)?"
)
_NO_JAPANESE = re.compile(
    r"(?:すみませんが|申し訳ありませんが|残念ですが)?(?:これは|それは|この件は|今回は)?"
    rf"(?:{_JAPANESE_THING}[をは])?(?:"
    r"いいえ|いえ|いや|ノー"
    r"|(?:却下|拒否|拒絶|否認|不許可|不承認|不可|だめ|ダメ|駄目|中止|中断|停止|キャンセル|取り?消し)"
    rf"{_SAID_SO}"
    r"|(?:取り?消して|やめて|止めて)(?:おいて|おきます)?(?:ください|下さい|ほしい(?:です)?|欲しい(?:です)?)?"
    r"|(?:やめ|止め|断り|お?断り|見送り)(?:ます|ました|します|いたします|致します|とします|です|です(?:よ|ね))?"
    r"|NOYES.*)"
)
_DOUBT = re.compile(
    r"\?|\.\.|\b(?:if|unless|only|when|once|until|till|maybe|perhaps|might|possibly|unsure"
    r"|not sure|depends|depending|why|what|which|how|who|whether|should i|can i|may i|or)\b"
    r"|ですか|ますか|でしょうか|のか(?:な)?$|かな(?:$|。)|もし|なら|場合|かもしれ|たぶん|多分|おそらく|かどうか"
    r"|だろう|迷って|検討|保留|なぜ|どうして|何|どの|どう(?!ぞ)|たら|れば|までは?|理由(?:は|を)|わけ(?:では|じゃ)"
)
_SIGNING_IN = (
    r"(?:log(?:ging)?|sign(?:ing)?)[ -]?(?:in|on)|authori[sz]ation|authentication|o?auth|consent"
    r"|verification"
)
_SIGNED_IN = r"(?:logged|signed)[ -]?(?:in|on)|authori[sz]ed|authenticated|verified"
_AT_LAST = r"(?: now| just| already| successfully| all)*"
_OVER = r"done|ready|finished|complete|completed|successful|all set"
_WITHOUT_FAULT = r"(?: (?:to|into|at|on) (?:it|there|the \w+|your \w+|my \w+))?"
#: A sentence that says that a person has signed in, or that it is time to go on, and nothing else.
_SIGNED_IN_ENGLISH = re.compile(
    r"(?:and |so |now |just |already |successfully |yes )*(?:"
    rf"(?:(?:i|we)(?:'m|'re|'ve| am| are| have)?|you(?:'re| are)|all|it(?:'s| is| has been)"
    rf"|that(?:'s| is))?{_AT_LAST} ?(?:{_SIGNED_IN}|{_OVER}){_WITHOUT_FAULT}{_AT_LAST}"
    rf"|(?:(?:i|we)(?:'ve| have)?{_AT_LAST} )(?:{_SIGNED_IN}|done|did|finished|completed|granted"
    rf"|given|gave|approved)(?: you)? (?:it|this|that|so|access|(?:the )?(?:{_SIGNING_IN}))"
    rf"{_AT_LAST}"
    rf"|(?:the |my )?(?:{_SIGNING_IN}|access)(?: is| was| has been| has)?{_AT_LAST}"
    rf" (?:{_OVER}|granted|given|approved|succeeded|worked)"
    r"|(?:(?:please|you (?:may|can)|then) )*(?:try(?: it)? again|retry|go on|carry on|resume"
    r"|check again)(?: please| now)?"
    r")"
)
_SIGNED_IN_JAPANESE = re.compile(
    r"(?:はい)?(?:先ほど|さきほど|今|いま|もう|すでに|既に|無事に?|ただいま)*(?:"
    r"(?:(?:再)?(?:ログイン|サインイン|ログオン)|認証|認可|承認|本人確認|手続き|設定|準備)"
    r"(?:は|が|を|に)?(?:無事に?|すべて|全て)?"
    r"(?:しました|した|済みです|済み|済みました|すみました|できました|出来ました|完了しました|完了です|完了"
    r"|終わりました|終えました|終了しました|終了です|成功しました|成功です|いたしました|致しました)"
    r"|(?:完了|終了)(?:しました|です|いたしました)?|終わりました|終えました|済みました|済みです|済み|すみました"
    r"|できました|出来ました"
    r"|(?:もう一度|再度|再び)(?:試して(?:ください|下さい|みてください)|お願いします|実行してください)"
    r"|(?:再開|再試行)(?:して(?:ください|下さい)|お願いします)?|続き(?:を|も)?お願いします"
    r")(?:よ|ので)?"
)
_YES = "yes"
_QUOTES = str.maketrans({"’": "'", "‘": "'", "「": " ", "」": " ", "『": " ", "』": " "})
_CLAUSES = re.compile(r"[.,!;:\n。、!]+")


def parse_approval(text: str) -> ApprovalDecision | None:
    """Return what a text decides, None if that is not beyond doubt.

    A yes lets something happen that cannot be undone, so it counts only where all of the text says
    yes: not with a question, a condition, a change, or a no in the same breath. A no is a clause
    that says no, beside which there may be reasons, but nothing else to be done.
    """
    clauses = _clauses(text)
    if _is_yes(clauses):
        return ApprovalDecision.APPROVE
    return ApprovalDecision.DENY if _is_no(clauses) else None


def parse_sign_in(text: str) -> ApprovalDecision | None:
    """Return whether a text says that a person has signed in, None if that is not beyond doubt.

    So does one that says yes, or to go on. One that tells of a failure decides nothing: the person
    may try once more.
    """
    clauses = _clauses(text)
    if _is_yes([_YES if _is_signed_in(clause) else clause for clause in clauses]):
        return ApprovalDecision.APPROVE
    return ApprovalDecision.DENY if _is_no(clauses) else None


def _is_signed_in(clause: str) -> bool:
    is_said = _SIGNED_IN_ENGLISH.fullmatch(clause)
    return bool(is_said or _SIGNED_IN_JAPANESE.fullmatch(clause.replace(" ", "")))


def _clauses(text: str) -> list[str]:
    """Return what a text says, clause by clause; nothing where it is in doubt or without end."""
    if len(text) > _MOST:
        return []
    said = normalize("NFKC", text).translate(_QUOTES).lower()
    if _DOUBT.search(said) or _NO_DOUBTED.search(said):
        return []
    clauses = [" ".join(clause.split()) for clause in _CLAUSES.split(said)]
    return [clause for clause in clauses if clause]


def _is_yes(clauses: list[str]) -> bool:
    if any(map(_PLEADING.search, clauses)) and any(map(_PLEADED.search, clauses)):
        return False
    rest = [clause for clause in clauses if not _FILLER.fullmatch(clause)]
    return bool(rest) and all(
        _YES_ENGLISH.fullmatch(clause) or _YES_JAPANESE.fullmatch(clause.replace(" ", ""))
        for clause in rest
    )


def _is_no(clauses: list[str]) -> bool:
    plain = [_NEGATED_YES.sub("NOYES", clause) for clause in clauses]
    if any(_YES_WORD.search(clause) or _YET.search(clause) for clause in plain):
        return False
    return any(
        _NO_ENGLISH.fullmatch(clause) or _NO_JAPANESE.fullmatch(clause.replace(" ", ""))
        for clause in plain
    )


#: What is answered with a value, and not by a yes or no.
_FREE = (RequestKind.INPUT, RequestKind.OUTCOME)
_VERDICTS = {
    "approve": ApprovalDecision.APPROVE,
    "approved": ApprovalDecision.APPROVE,
    "deny": ApprovalDecision.DENY,
    "denied": ApprovalDecision.DENY,
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


def _said(text: str, request: InputRequest) -> ApprovalDecision | None:
    """Return what words decide of a request, None for one that is not decided by a yes or no."""
    if request.kind is RequestKind.AUTHORIZATION:
        # The credentials take another way; the words say no more than whether it is time to go on.
        return parse_sign_in(text)
    return parse_approval(text) if request.kind is RequestKind.CONFIRMATION else None


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


def _verdict_in(entry: Mapping[str, Any], request: InputRequest, text: str) -> ApprovalDecision:
    given = entry.get("verdict", entry.get("approved"))
    if given is None and request.kind is RequestKind.AUTHORIZATION:
        decided = parse_sign_in(text)  # words beside data that leaves it open
        if decided is not None:
            return decided
    if isinstance(given, bool):
        return ApprovalDecision.APPROVE if given else ApprovalDecision.DENY
    if given is None and request.kind in _FREE:
        return ApprovalDecision.APPROVE
    if isinstance(given, str) and given.lower() in _VERDICTS:
        return _VERDICTS[given.lower()]
    raise InvalidInput(f'"verdict" of the answer to {request.id} is "approve" or "deny"')


def _from_text(text: str, request: InputRequest, waiting: int, by: str) -> InputAnswer | None:
    if request.kind not in _FREE:
        decided = _said(text, request)
        if decided is None:
            return None
        reason = text if decided is ApprovalDecision.DENY else ""
        return InputAnswer(request_id=request.id, verdict=decided, reason=reason, by=by)
    if waiting > 1 or not text:
        return None  # whose answer it would be is not told
    return InputAnswer(request_id=request.id, value=text, by=by)
