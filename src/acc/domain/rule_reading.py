"""Reading rules, questions, goals and doubts out of plain sentences, English and Japanese."""

import re
from dataclasses import dataclass
from functools import lru_cache

from acc.domain.language import identifiers, one_line, terms
from acc.domain.value_objects.rule import Rule, RuleKind

_CACHE = 65_536
_COUNT_WORDS = {
    word: number
    for number, word in enumerate(
        "one two three four five six seven eight nine ten eleven twelve".split(), start=1
    )
} | {"a single": 1, "single": 1} | {kanji: n for n, kanji in enumerate("一二三四五六七八九十", start=1)}
_N = r"(\d+|" + "|".join(sorted((w for w in _COUNT_WORDS if w.isascii()), key=len, reverse=True)) + r")"
_NJ = r"(\d+|[一二三四五六七八九十])"
_LIMIT = (
    r"(?:under|at most|no more than|not more than|(?:a )?max(?:imum)?(?: of)?|up to|within|fewer than|less than"
    r"|not exceed|below|limit(?:ed)?(?: \w+){0,3} (?:to|of)|cap(?:ped)?(?: \w+){0,3} (?:to|at|of)|hold(?: \w+){0,3} to|keep(?: \w+){0,3} to|stays? (?:under|within|below))"
)
_ANSWER = r"(?:answers?|repl(?:y|ies)|responses?|messages?|updates?|notes?|reports?|it|them)"
_QUOTED = re.compile(r"[\"“]([^\"”]+)[\"”]|「([^」]+)」|『([^』]+)』|'([^']{2,})'(?!\w)|`([^`]+)`")

_COUNTED: tuple[tuple[RuleKind, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern, re.I))
    for kind, pattern in (
        (RuleKind.MAX_WORDS, rf"{_LIMIT} {_N} words?\b"),
        (RuleKind.MAX_WORDS, rf"\b{_N}[- ]words?(?: or (?:fewer|less)| (?:max|limit|cap|ceiling|maximum|at most|tops))\b"),
        (RuleKind.MAX_CHARACTERS, rf"{_LIMIT} {_N} characters?\b|(\d+)\s*(?:文字|字)(?:以内|以下|まで|未満)"),
        (RuleKind.EXACT_BULLETS, rf"\bexactly {_N} (?:\w+ )?(?:bullets?|bullet points?)\b|箇条書き[^。]{{0,6}}?ちょうど{_NJ}|ちょうど{_NJ}\s*(?:つ|個|項目|点|行)?の箇条書き"),
        (RuleKind.MAX_BULLETS, rf"{_LIMIT} {_N} (?:\w+ )?(?:bullets?|bullet points?)\b|\b{_N} (?:bullets?|bullet points?)(?: or (?:fewer|less)| (?:max|limit|cap|maximum|at most|tops))\b"),
        (RuleKind.MAX_BULLETS, rf"箇条書き[^。]{{0,8}}?{_NJ}\s*(?:つ|個|項目|点|行|件)?(?:以内|以下|まで)|{_NJ}\s*(?:つ|個|項目|点|行|件)(?:以内|以下|まで)の箇条書き"),
        (RuleKind.EXACT_BULLETS, rf"\b(?:in|use|as|with|give me|write) {_N} (?:\w+ )?(?:bullets|bullet points)\b|箇条書き{_NJ}\s*(?:つ|個|項目|点|行|件)で|{_NJ}\s*(?:つ|個|項目|点|行|件)の箇条書き"),
        (RuleKind.MAX_SENTENCES, rf"(?:{_LIMIT}|\bin|\bexactly|\bwith) {_N} (?:\w+ )?sentences?\b|\b{_N}[- ]sentences?(?: or (?:fewer|less)| (?:max|limit|cap|maximum|at most|answer|reply))\b|{_NJ}\s*文(?:以内|以下|まで|で)"),
    )
)
_ENDING = re.compile(
    r"\b(?:end|close|finish|sign off|conclude|ends|closes|finishes|ending|last line)\b[^\"“'`]{0,60}?(?:with|is|be|reads?|:|on)(?: always)?\s*(?:the (?:line|words?|phrase) )?[\"“'`]"
    r"|(?:最後|末尾|文末|締め|結び)[^「『。]{0,12}[「『]|[「『][^」』]+[」』]で(?:締め|終え|終わ|結)",
    re.I,
)
_OPENING = re.compile(
    r"\b(?:start|begin|open|starts|begins|opens|prefix)\b[^\"“'`]{0,60}?(?:with|by)\s*(?:the (?:line|words?|phrase|tag) )?[\"“'`]"
    r"|(?:冒頭|先頭|文頭|最初|書き出し)[^「『。]{0,12}[「『]|[「『][^」』]+[」』](?:から|で)(?:始め|書き出)",
    re.I,
)
_HEADING = re.compile(r"\bhead(?:ing|er|ed|ings|ers)\b|\bsections?\b(?=[^.]{0,30}[\"“'`])|見出し", re.I)
_JSON = re.compile(r"(?<![a-z])json(?![a-z])", re.I)
_KEY_NOISE = frozenset("and the as in json object only with for of no other nothing else please".split())
_JSON_KEYS = re.compile(r"(?:keys?|fields?|キー|項目)(.*)$", re.I)
_FORBID = re.compile(
    r"(?:\b(?:never|do not|don['’]t|must not|avoid|no|not to|stop|without|refrain from|ban(?:ned)?|keep)\b[^.\"“]{0,40}"
    r"\b(?:use|say|write|mention|using|saying|writing|mentioning|words?|phrase|term|expression)\b[^.\"“'`]{0,30}[\"“'`])"
    r"|[\"“][^\"”]+[\"”][^.\"“]{0,40}\b(?:is|are) (?:banned|forbidden|off limits|not allowed)"
    r"|[」』][^。「『]{0,16}(?:使わない|使用しない|使用禁止|使わず|使用は禁止|書かない|言わない|出さない|載せない|触れない|含めない|挙げない|避け|禁止|用いない|控え)",
    re.I,
)
_REQUIRE = re.compile(
    r"\b(?:include|mention|cite|quote|state|carry|carries|contain|contains|reference|references|put|add|give|repeat)s?\b"
    r"|必ず[^。]{0,24}(?:含め|記載|明記|入れ|書|添え|付け)|(?:含め|記載し|明記し|入れ)て(?:ください|下さい)",
    re.I,
)
_EVERY = re.compile(
    r"\b(?:every|each|all|always|any|from now on|from here on|going forward|must)\b|必ず|毎回|常に|すべて|全て|今後|以後|以降", re.I
)
_SECRET = re.compile(
    r"\b(?:never|do not|don['’]t|must not|may not|not to|no one may|cannot|can['’]t)\b[^.]{0,30}"
    r"\b(?:share|disclose|reveal|give out|give away|read out|pass on|publish|release|repeat|name|send|hand out|expose)\b"
    r"|\b(?:is|are|stays?|remains?|keep|kept)\b[^.]{0,40}\b(?:confidential|secret|private|off the record|undisclosed)\b"
    r"|(?:開示|共有|公開|口外|漏ら|伝え|教え|明か|回答|お知らせ)(?:し)?(?:ない|ません|てはいけ|ては(?:なら|いけ)|禁止|しないで|ないで)|(?:開示|共有|公開|口外)(?:は)?(?:禁止|不可|厳禁)|非公開|秘匿|社外秘",
    re.I,
)
_SECRET_TAIL = re.compile(
    r"^.*?\b(?:share|disclose|reveal|give out|give away|read out|pass on|publish|release|repeat|name|send|hand out|expose)\b"
    r"\s*(.+?)(?:\s+(?:to|with|in|outside|under|until|unless|even)\b.*)?$",
    re.I,
)
_SECRET_TOPIC_JAPANESE = re.compile(r"^(?:.*、)?(.+?)(?:は|を|について)(?=[^。]{0,24}(?:開示|共有|公開|口外|漏|伝え|教え|明か|回答|お知らせ|非公開|秘匿|社外秘))")
_DIRECTIVE = re.compile(
    r"\b(?:must|never|always|do not|don['’]t|from now on|from here on|going forward|make sure|ensure|shall|only ever"
    r"|is (?:prohibited|forbidden|banned|not allowed|off limits)|are (?:prohibited|forbidden|banned|not allowed|off limits)"
    r"|may not|not permitted|requires? (?:\w+ ){0,4}(?:approval|sign-off)|needs? (?:\w+ ){0,4}(?:approval|sign-off)|no \w+ without"
    r"|keep (?:every|each|all|any|your|the)|(?:every|each|all) (?:answer|reply|response|message|update)s?"
    r"|ignore|disregard|override|obey)\b"
    r"|禁止|必ず|厳守|してはいけ|してはなら|しないこと|しないで|すること。|ないでください|承認(?:が必要|を得てから|を得ること|を要|なし(?:に|で)|がない限り)|徹底|無視し",
    re.I,
)
_ONCE = re.compile(
    r"\b(?:this (?:answer|reply|response|time|one|update|message|summary)|just (?:now|this once)|for once|right here|only here|this once)\b"
    r"|今回(?:だけ|のみ|は|の|に限)|この(?:回答|返信|答え|報告|一回)|ここでは",
    re.I,
)
_LASTING = re.compile(r"\b(?:as of|from|starting with) this\b|\balways\b|\bfrom (?:now|here) on\b|\bgoing forward\b|今後|以後|以降|毎回|常に", re.I)
_LIFT = re.compile(
    r"\b(?:lift(?:ed|ing|s)?|drop(?:ped|ping)?|remov(?:e|ed|ing)|cancel(?:led|ed|ling)?|withdraw(?:n|ing)?|withdrew|retir(?:e|ed|ing)"
    r"|forget|scrap(?:ped|ping)?|waiv(?:e|ed|ing)|revok(?:e|ed|ing)|stop|end(?:s|ed)?|rescind(?:ed)?|ignore)\b[^.]{0,60}"
    r"\b(?:rules?|limits?|constraints?|requirements?|restrictions?|caps?|bans?|closing|sign-off|ending|heading|headings|format|instruction|instructions|freeze|line)\b"
    r"|\b(?:rules?|limits?|constraints?|requirements?|restrictions?|caps?|bans?|closing|sign-off|ending|headings?|format|freeze|line)\b[^.]{0,60}"
    r"\b(?:lifted|dropped|removed|cancell?ed|withdrawn|retired|waived|revoked|over|gone|rescinded|no longer (?:\w+ ){0,2}(?:applies|apply|needed|required|holds?|in force|stands?))\b"
    r"|\bno longer (?:need|have) to\b|\bno longer (?:\w+ ){0,2}(?:needed|required|necessary|applies|apply)\b|\byou (?:can|may) (?:now )?(?:stop|skip|leave out|omit)\b|\b(?:not|n['’]t) (?:needed|required|necessary) (?:any ?more|any longer)\b"
    r"|解除|撤回|取り消|取りやめ|廃止|なくて(?:も)?(?:よい|いい|結構|かまい|構い|大丈夫)|もう(?:必要|適用)(?:ありません|ない)|不要(?:です|になり|とし|に)|終了(?:します|しました|とします)",
    re.I,
)
_QUESTION = re.compile(r"[?？]\s*[\"'”」』)]*$|か[。.]?$")
_CONTENT_JAPANESE = re.compile(r"(?:を|も|、)[^、。]*(?:教え|まとめ|挙げ|示し|説明|述べ|作成|報告|整理|要約|比較|起案|列挙|知らせ|書い|答え)")
_POLITE_JAPANESE = re.compile(r"(?:ください|下さい|ほしい(?:です)?|お願い(?:いた)?します|頼みます)[。.]?$")
_NEGATIVE_JAPANESE = re.compile(r"ないで|しないよう|ぬよう|控え|避け")
_REQUEST = re.compile(
    r"^(?:(?:so|now|then|and|ok|okay|please|meanwhile|finally|again|also|once more)[,:]?\s+)*"
    r"(?:can you|could you|would you|will you|give|tell|list|state|confirm|draft|write|summari[sz]e|remind|name|explain|recap|repeat"
    r"|describe|outline|report|provide|show|say|recommend|choose|compare|prepare|restate|walk|read|quote|spell|answer|reply|respond|compose|produce|brief|fill|put|mark|present|lay|cover|what|who|which|when|where|how|why)\b",
    re.I,
)
_GOAL = re.compile(
    r"\b(?:(?:our|the|my|main|overall|primary) (?:\w+ )?(?:goal|objective|aim|mission|priority)\b|we (?:need|have|want|aim) to\b|i want (?:us )?to\b|help (?:me|us)\b|the job is to\b)"
    r"|(?:目標|目的|ゴール|最優先事項|狙い)は|を目指",
    re.I,
)
_DOUBT = re.compile(
    r"\b(?:unconfirmed|not (?:yet )?(?:confirmed|verified|known|clear|sure|certain|established)|maybe|perhaps|suspect(?:ed|s)?|might|may be|unclear|unknown|possibly"
    r"|probably|likely|tbd|to be confirmed|unverified|rumou?r|allegedly|preliminary|tentative|open question)\b"
    r"|未確認|不明|かもしれ|おそらく|推定|疑い|疑われ|可能性|未定|調査中|と思われ",
    re.I,
)
_KIND_HINTS: tuple[tuple[RuleKind, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern, re.I))
    for kind, pattern in (
        (RuleKind.MAX_WORDS, r"\bwords?\b|\blength\b|語数"),
        (RuleKind.MAX_CHARACTERS, r"\bcharacters?\b|\blength\b|文字|字数"),
        (RuleKind.MAX_SENTENCES, r"\bsentences?\b|文以内|文まで|文数"),
        (RuleKind.MAX_BULLETS, r"\bbullets?\b|箇条書き"),
        (RuleKind.EXACT_BULLETS, r"\bbullets?\b|箇条書き"),
        (RuleKind.ENDS_WITH, r"\bending\b|\bclosing\b|\bsign-?off\b|\blast line\b|\bend (?:every|each|answers)\b|結び|締め|末尾|最後"),
        (RuleKind.STARTS_WITH, r"\bopening\b|\bfirst line\b|\bprefix\b|\bstart(?:ing)?\b|冒頭|書き出し|先頭"),
        (RuleKind.HEADINGS, r"\bheadings?\b|\bheaders?\b|\bsections?\b|見出し"),
        (RuleKind.JSON, r"\bjson\b"),
    )
)


@dataclass(frozen=True, slots=True)
class ReadRule:
    """A rule found in a sentence, and whether it holds for one answer only."""

    rule: Rule
    text: str
    once: bool


@lru_cache(maxsize=_CACHE)
def read_rule(sentence: str) -> ReadRule | None:
    """Return the rule that a sentence states, or None."""
    if is_question(sentence) and not _DIRECTIVE.search(sentence) and not _is_format_request(sentence):
        return None
    rule = _form_rule(sentence)
    if rule is None:
        if not _DIRECTIVE.search(sentence):
            return None
        rule = Rule(kind=RuleKind.POLICY)
    return ReadRule(rule=rule, text=one_line(sentence), once=_is_once(sentence))


def _is_format_request(sentence: str) -> bool:
    return _form_rule(sentence) is not None


def _is_once(sentence: str) -> bool:
    if _LASTING.search(sentence):
        return False
    if _ONCE.search(sentence):
        return True
    # "Summarise X in three bullets" is about this answer; "every answer in three bullets" is not.
    return is_question(sentence) and not _EVERY.search(sentence)


@lru_cache(maxsize=_CACHE)
def _form_rule(sentence: str) -> Rule | None:
    for kind, pattern in _COUNTED:
        match = pattern.search(sentence)
        if match is not None:
            found = next(group for group in match.groups() if group)
            number = int(found) if found.isdigit() else _COUNT_WORDS[found.casefold()]
            exclusive = re.search(r"under|fewer than|less than|below|未満", match[0], re.I)
            return Rule(kind=kind, number=max(1, number - 1 if exclusive else number))
    quoted = tuple(next(filter(None, groups)) for groups in _QUOTED.findall(sentence))
    if _JSON.search(sentence) and not re.search(r"\b(?:not|no|never|n't) (?:\w+ ){0,2}json", sentence, re.I):
        keys = _JSON_KEYS.search(sentence)
        return Rule(kind=RuleKind.JSON, words=_keys(keys[1]) if keys else ())
    if quoted:
        found_rule = _quoted_rule(sentence, quoted)
        if found_rule is not None:
            return found_rule
    if _SECRET.search(sentence):
        return Rule(kind=RuleKind.REFUSE, words=(_secret(sentence),))
    if _EVERY.search(sentence) and _REQUIRE.search(sentence):
        codes = [w for w in re.findall(r"[A-Za-z]+-[\w-]*\d\w*", sentence) if w.casefold() in identifiers(sentence)]
        if codes:
            return Rule(kind=RuleKind.REQUIRE, words=tuple(codes))
    return None


def _quoted_rule(sentence: str, quoted: tuple[str, ...]) -> Rule | None:
    if _HEADING.search(sentence):
        return Rule(kind=RuleKind.HEADINGS, words=quoted)
    if _FORBID.search(sentence):
        return Rule(kind=RuleKind.FORBID, words=quoted)
    if _ENDING.search(sentence):
        return Rule(kind=RuleKind.ENDS_WITH, words=quoted[-1:])
    if _OPENING.search(sentence):
        return Rule(kind=RuleKind.STARTS_WITH, words=quoted[:1])
    if _REQUIRE.search(sentence) and (_EVERY.search(sentence) or _ONCE.search(sentence)):
        return Rule(kind=RuleKind.REQUIRE, words=quoted)
    return None


def _keys(text: str) -> tuple[str, ...]:
    quoted = tuple(next(filter(None, groups)) for groups in _QUOTED.findall(text))
    if quoted:
        return quoted
    listed = re.match(r"\W*(?:are|as|:|が|は|を)?\W*((?:[a-z][a-z0-9_]*(?:\s+and\s+|[\s,、・と]+)?)+)", text)
    words = re.findall(r"[a-z][a-z0-9_]*", listed[1]) if listed else []
    return tuple(word for word in words if word not in _KEY_NOISE)


def _secret(sentence: str) -> str:
    match = _SECRET_TAIL.match(sentence.rstrip(". ")) or _SECRET_TOPIC_JAPANESE.match(sentence)
    return one_line(match[1]) if match and match[1].strip() else one_line(sentence)


def lifts(sentence: str) -> bool:
    """Tell whether a sentence ends a rule."""
    return _LIFT.search(sentence) is not None


def lifted_by(sentence: str, rule_text: str) -> bool:
    """Tell whether a sentence that ends a rule means the rule stated by `rule_text`."""
    read = read_rule(rule_text)
    if read is not None and any(
        kind is read.rule.kind and hint.search(sentence) for kind, hint in _KIND_HINTS
    ):
        return True
    wanted = terms(_LIFT.sub(lambda match: match[0], sentence)) - _LIFT_WORDS
    return bool(wanted) and len(wanted & terms(rule_text)) * 2 >= len(wanted)


_LIFT_WORDS = terms(
    "lift lifted drop dropped remove removed cancel cancelled withdraw withdrawn retire retired forget scrap waive waived revoke"
    " revoked stop end ended rule rules limit constraint requirement restriction cap ban longer applies apply needed required"
    " holds force necessary skip leave omit anymore answer answers reply replies today now rescinded"
    " 解除 撤回 廃止 不要 終了 規則 制限 制約 指定 必要 適用 回答"
)


@lru_cache(maxsize=_CACHE)
def is_question(sentence: str) -> bool:
    """Tell whether a sentence asks for something.

    In Japanese the same polite ending asks for an answer and sets a rule; it is a rule where it
    speaks of form, forbids something, or is meant to last.
    """
    if _QUESTION.search(sentence) or _REQUEST.match(sentence):
        return True
    return _POLITE_JAPANESE.search(sentence) is not None and not (
        _NEGATIVE_JAPANESE.search(sentence) or _EVERY.search(sentence) or _is_about_form(sentence)
    )


def _is_about_form(sentence: str) -> bool:
    # "Summarise the impact in three bullets" asks; "three bullets at most, please" only limits.
    return _form_rule(sentence) is not None and not _CONTENT_JAPANESE.search(sentence)


def is_directive(sentence: str) -> bool:
    """Tell whether a sentence orders or forbids something, or sets a goal."""
    return (
        _DIRECTIVE.search(sentence) is not None
        or _form_rule(sentence) is not None
        or states_goal(sentence)
    )


def states_goal(sentence: str) -> bool:
    """Tell whether a sentence sets a lasting objective."""
    return _GOAL.search(sentence) is not None


def is_doubtful(sentence: str) -> bool:
    """Tell whether a sentence says of itself that it is not certain."""
    return _DOUBT.search(sentence) is not None
