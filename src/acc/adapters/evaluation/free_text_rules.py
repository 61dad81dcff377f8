"""Read rules about the form of answers in free text, and check answers against them.

A scenario annotates its rules. Here a rule is one sentence of a user, such as "no emojis please".
Each kind has a pattern that recognises the sentence, and a check of the answer.
"""

import re
from collections.abc import Callable
from functools import lru_cache

from acc.adapters.evaluation.answer_kinds import is_refusal, is_unknown
from acc.adapters.evaluation.findings import leaks
from acc.domain.format_rules import count_bullets, count_characters, count_words
from acc.domain.language import contains_text, is_japanese, names, normalize_text, sentences, terms
from acc.domain.quantities import contains_quantity, quantities, with_digits

Check = Callable[[str], str]
_NOT = r"(?:no|not|never|without|avoid|skip|don['’]t|do not|stop|drop|leave out)"
_NOT_JAPANESE = "ない|使わず|なし|無し|禁止|不要|やめ|避け|控え|苦手"
_SMALL = {"one": 1, "a single": 1, "single": 1, "two": 2, "three": 3, "four": 4, "five": 5}
_SMALL |= {"six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10}
_SMALL |= {digit: number for number, digit in enumerate("一二三四五六七八九十", start=1)}
_N = rf"({'|'.join(_SMALL)}|\d{{1,4}})"
_LIMIT = re.compile(
    rf"\b{_N}[\s-]*(?:short )?(sentence|word|line|bullet point|bullet|character)s?\b"
    r"|([一二三四五六七八九十]|\d{1,4})\s*(?:つ|個|項目|点)?(文字|文|字|行|つまで|個まで|項目まで|点まで)",
    re.I,
)
_LIMITING = re.compile(
    r"\b(?:at most|max(?:imum)?|most|no more|not? (?:be )?(?:longer|more)|longer|limit(?:ed)?|up to"
    r"|under|within|only|keep|exceed|fewer|less|tops|answers?|repl(?:y|ies)|please|pls)\b"
    r"|以内|以下|まで|超え|で(?:お願い|答|書|頼|。|$)|にして|だけ",
    re.I,
)
_EMOJI = re.compile(
    "[\U0001f300-\U0001faff\u2600-\u27bf\U0001f1e6-\U0001f1ff\u2b50\u2b55\u231a-\u23ff]"
)
_CLOCK_HALVES = re.compile(r"\d\s?[ap]\.?m\b|午前|午後", re.I)
_POLITE = re.compile(
    r"(?:です|ます|ません|でした|ました|ございます|ください|でしょう)(?:[ねよか]|が|$|。)?"
)
_NUMBERED = re.compile(r"^\s*\d{1,2}[.)]\s", re.M)
_LANGUAGES = {
    "english": "the is are at of and to in it on for you was with",
    "spanish": "el la los las es son a y en de que por un una está las del",
    "french": "le la les est sont et des à un une en du dans que",
    "german": "der die das ist sind und um ein eine im am nicht zu den",
    "italian": "il la gli è sono e di che un una alle nel della",
    "portuguese": "o a os as é são e de que um uma às no na do da",
}
_LANGUAGES_JAPANESE = {"英語": "english", "日本語": "japanese", "フランス語": "french"}
_LANGUAGES_JAPANESE |= {"スペイン語": "spanish", "ドイツ語": "german"}
_LANGUAGE = re.compile(
    rf"\b(?:answer|reply|respond|write|talk|speak|stick to|only)\b[^.]{{0,30}}?\b(?:in )?"
    rf"({'|'.join(_LANGUAGES)}|japanese)\b|({'|'.join(_LANGUAGES_JAPANESE)})で",
    re.I,
)
_EXAMPLE = re.compile(
    r"\b(?:begin|start|open|prefix)\w*\b.*?\b(?:like|such as|e\.g\.|for example)\s*:?\s*[\"“'`]?"
    r"([\[(#]?[\w-]*\d[\w-]*[\])]?)|(?:冒頭|最初|頭|先頭).*?例[::]?\s*([\[(#]?[\w-]*\d[\w-]*[\])]?)",
    re.I,
)
_DATE_FIRST = re.compile(
    r"\b(?:begin|start|open)\w*\b.{0,30}\b(?:today['’]s |the )?date\b"
    r"|(?:冒頭|最初|頭|先頭).{0,12}日付",
    re.I,
)
_DATE = re.compile(
    r"^\W*(?:\d{4}[-/年]\d{1,2}|\d{1,2}月\d{1,2}日|\d{1,2}[./]\d{1,2}|(?:\d{1,2}(?:st|nd|rd|th)? )?"
    r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\b)",
    re.I,
)
_CALL_ME = re.compile(
    r"\b(?:call|address) me (?:as )?[\"“'`]?([\w-]+)|(?:私|僕|俺|わたし)?(?:の?こと)?(?:は|を)?"
    r"[「『]?([\w・]{1,10}?)[」』]?(?:と|って)呼ん",
    re.I,
)
_INSTEAD = re.compile(
    r"\b(?:in|as|use|write|give|state|want|say)\b[^.]*?,? (?:never|not|instead of|rather than)"
    r" (?:in |as |use )?(?:the )?([a-z]{3,})\b",
    re.I,
)
_UNUSED_JAPANESE = re.compile(
    r"([\u30a1-\u30fc]{2,}|[\u3400-\u9fff]{2,6})は(?:使わ(?:ない|ず)|用いない)"
)
_TOPIC = re.compile(
    r"\b(?:mention|comment on|talk about|discuss|bring up|speak about|refer to"
    r"|say (?:anything|a word) about|tell \w+(?: \w+)? about)\s+(?:the |a |an |our |my )?"
    r"(?P<topic>[^.,;]+)",
    re.I,
)
_TOPIC_JAPANESE = re.compile(
    r"(?P<topic>[^、。]{2,20}?)(?:の話|のこと|の件)?(?:について)?(?:は|に)[^。]{0,20}?"
    r"(?:触れ|言及|言わ|話さ|しゃべら|コメントし|何も言)|(?P<talk>[^、。]{2,20}?)の話は[^。]{0,12}しない"
)
_PROHIBITED = re.compile(r"\b(?:never|not|don['’]t|nothing|no)\b|ない|禁止|ず", re.I)
_SECRET = re.compile(
    r"\b(?:never|not|don['’]t)\b[^.]*\b(?:give out|give away|tell|told|share|reveal|disclose"
    r"|pass (?:\w+ )?on|hand out|be told|be given)\b"
    r"|\bkeep\b[^.]*\b(?:to yourself|secret|private|confidential|between us)\b"
    r"|(?:教え|明かさ|漏らさ|伝え|口外|見せ)(?:て|し|る)?(?:は|ない|ず|ては)",
    re.I,
)
_DIGITS = re.compile(r"\d[\d\s-]{1,20}\d|\d{3,}")
_AFTER_COLON = re.compile(r"[:：]\s*([^.。]{4,60})")
_SUGGEST = re.compile(
    r"\b(?:recommend|suggest|propose)\s+(?P<object>[a-z ]{3,30})|(?P<object_ja>[^、。]{1,10}?)"
    r"(?:は|を)(?:すすめ|勧め|推薦し|推奨し|おすすめし)",
    re.I,
)
_RECOMMENDS = re.compile(
    r"\b(?:recommend|suggest|should|best|try|go for|make|cook|eat|have)\b|おすすめ|お勧め|ぜひ|一番"
    r"|てください|どうですか",
    re.I,
)
_CONDITION = re.compile(r"\b(?:without|unless|until|except)\b|なしに|なしで|ずに|ない限り", re.I)
_PROMISE = re.compile(r"\bpromis\w*|約束", re.I)
_PROMISES = re.compile(
    r"\b(?:i|we) (?:promise|guarantee|assure)\b|\b(?:definitely|for sure|guaranteed)\b"
    r"|約束(?:し|いたし|致し)ます|必ず[^。]*ます|保証(?:し|いたし)ます",
    re.I,
)
_IN_EACH = re.compile(
    r"\b(?:mention|include|add|state|put|give)\b.*\b(?:each|every|all|any)\b"
    r"|\b(?:each|every)\b.*\b(?:mention|include|contain|state)|(?:どの|毎回|すべての|全ての|各)[^。]*"
    r"(?:入れ|含め|書|添え|記載)",
    re.I,
)
_QUOTED = re.compile(r"[\"“]([^\"”]{1,60})[\"”]|「([^」]{1,60})」|『([^』]{1,60})』")
_START = re.compile(r"\b(?:begin|start|open)\w*\b|冒頭|最初|先頭|書き出し", re.I)
_END = re.compile(r"\b(?:end|close|finish|sign)\w*\b|最後|末尾|文末|締め", re.I)
_GREETING = re.compile(
    r"(?:hello|hi|dear|good (?:morning|afternoon|evening)|greetings|hey)\b"
    r"|こんにちは|おはよう|こんばんは|お世話",
    re.I,
)
_TYPED = re.compile(r"^(?:the |a )?(name|date|time|number|price|amount)\b", re.I)


@lru_cache(maxsize=2_048)
def is_free_text_rule(sentence: str) -> bool:
    """Return True if a sentence sets a rule that this module can check."""
    if re.search(r"[?？]\W*$", sentence):
        return False
    return _check_of(sentence) is not None or bool(
        _SECRET.search(sentence) or _forbids_suggestion(sentence)
    )


def free_text_violation(rule: str, answer: str, statements: tuple[str, ...]) -> str | None:
    """Return how an answer breaks a rule in free text, or None if the rule is of another kind."""
    check = _check_of(rule)
    if check is not None:
        return check(answer)
    if _forbids_suggestion(rule):
        return _suggestion_in(rule, answer, statements)
    if _PROMISE.search(rule) and _PROHIBITED.search(rule) and _PROMISES.search(answer):
        return "has a promise" if not is_refusal(answer) else None
    if _SECRET.search(rule) and (leak := _leak_in(rule, answer, statements)):
        return leak
    return None


def _forbids_suggestion(rule: str) -> bool:
    return bool(_SUGGEST.search(rule) and _PROHIBITED.search(rule) and not _CONDITION.search(rule))


@lru_cache(maxsize=2_048)
def _check_of(rule: str) -> Check | None:
    """Return the check of a rule about form, or None."""
    text = normalize_text(rule)
    for reader in (_quoted, _style, _shape, _layout, _limit, _language, _words, _topic):
        check = reader(text)
        if check is not None:
            return check
    return None


def _denies(text: str, noun: str, noun_japanese: str) -> bool:
    return bool(
        re.search(rf"\b{_NOT}\b[^.]*\b(?:{noun})\b", text, re.I)
        or re.search(rf"(?:{noun_japanese})[^。]*?(?:{_NOT_JAPANESE})", text)
    )


def _style(text: str) -> Check | None:
    if _denies(text, "emojis?|emoticons?|smileys?", "絵文字|顔文字"):
        return lambda answer: "contains an emoji" if _EMOJI.search(answer) else ""
    if _denies(
        text, "exclamation (?:marks?|points?)", "感嘆符|びっくりマーク|エクスクラメーション"
    ):
        return lambda answer: "contains '!'" if re.search("[!！]", answer) else ""
    if re.search(r"\blower[ -]?case\b|小文字", text, re.I):
        return lambda answer: "has capital letters" if answer != answer.lower() else ""
    if re.search(r"\b24[ -]?h(?:ours?)?\b|24時間(?:表記|制)", text, re.I):
        return lambda answer: "has a 12-hour clock" if _CLOCK_HALVES.search(answer) else ""
    if re.search(
        r"だ・?である|常体|タメ口|ため口|敬語[^。]*?(?:使わ|なし|不要|要らない|やめ|抜き)", text
    ):
        return lambda answer: "is polite" if _POLITE.search(answer) else ""
    if re.search(r"です・?ます|敬語で|丁寧語で|敬体", text):
        return _not_polite
    if "半角" in text:
        return lambda answer: (
            "has full-width digits" if re.search("[\uff10-\uff19]", answer) else ""
        )
    return None


def _not_polite(answer: str) -> str:
    plain = [one for one in sentences(answer) if not _POLITE.search(one)]
    return f"is not polite: {plain[0]}" if plain else ""


def _quoted(text: str) -> Check | None:
    """Return the check of a rule about quoted words: where they must be, or that they must not."""
    match = _QUOTED.search(text)
    if match is None:
        return None
    word = next(filter(None, match.groups()))
    letters = _letters(word)
    before, after = re.split(r"[;.,]", text[: match.start()])[-1], text[match.end() :]
    if _START.search(before) or re.match(r"(?:から|で)?(?:書き)?始め|から書", after):
        return lambda answer: "" if _letters(answer).startswith(letters) else f"lacks: {word}"
    if _END.search(before) or re.match(r"で(?:終|締|結)", after):
        return lambda answer: "" if _letters(answer).endswith(letters) else f"lacks: {word}"
    if re.match(
        r"(?:と|って)?(?:を|も)?(?:必ず|毎回)?(?:付け|つけ|入れ|書|添え|加え)(?!ない)", after
    ):
        return lambda answer: "" if contains_text(answer, word) else f"lacks: {word}"
    is_denied = re.search(r"\b(?:never|not|no|don['’]t|avoid)\b", before, re.I) or re.match(
        r"[^。、]{0,12}?(?:ない|避け|禁止|使わず)", after
    )
    if is_denied:
        return lambda answer: f"contains {word!r}" if contains_text(answer, word) else ""
    if re.search(r"\b(?:always|every|each|say|add|include|use)\b", before, re.I):
        return lambda answer: "" if contains_text(answer, word) else f"lacks: {word}"
    return None


def _letters(text: str) -> str:
    """Return the letters and digits of a text in lower case."""
    return re.sub(r"[\W_]+", "", normalize_text(text)).casefold()


def _layout(text: str) -> Check | None:
    """Return the check of a rule about tables, greetings, questions or figures."""
    if re.search(r"\b(?:as|in|use) (?:a )?tables?\b|表で|表形式", text, re.I):
        return lambda answer: "" if answer.count("|") >= 4 else "has no table"
    if _denies(text, "greetings?|salutations?|hellos?", "あいさつ|挨拶") or "あいさつは省" in text:
        return lambda answer: "has a greeting" if _GREETING.match(answer.strip()) else ""
    if _denies(text, "questions?", "質問|疑問"):
        return lambda answer: (
            "has a question" if re.search("[?？]|ましょうか|ますか", answer) else ""
        )
    if re.search(r"\b(?:numbers?|figures?)\b[^.]*\bas words\b", text, re.I):
        return lambda answer: "has a digit" if re.search(r"(?<!\d)\d(?![\d:.])", answer) else ""
    if re.search(r"算用数字|アラビア数字", text):
        return lambda answer: (
            "has kanji numbers"
            if re.search("[一二三四五六七八九十百]+(?=[人台個本枚件回時分日月年点階])", answer)
            else ""
        )
    return None


def _shape(text: str) -> Check | None:
    if re.search(r"\bend\w*\b[^.]*\bquestion\b|(?:最後|文末)[^。]*(?:質問|問いかけ)で", text, re.I):
        return lambda answer: "" if answer.rstrip().endswith(("?", "？")) else "has no question"
    if match := _EXAMPLE.search(text):
        shape = re.sub(r"\d+", r"\\d+", re.escape(match[1] or match[2]))
        return lambda answer: "" if re.match(shape, answer.strip()) else "does not start like that"
    if _DATE_FIRST.search(text):
        return lambda answer: "" if _DATE.match(answer) else "does not start with a date"
    if re.search(
        r"\bnumbered\b|\bnumber (?:the|your) (?:lists?|steps)|番号(?:付き|つき|を(?:振|付))",
        text,
        re.I,
    ):
        return lambda answer: "" if _NUMBERED.search(answer) else "has no numbered list"
    return None


def _limit(text: str) -> Check | None:
    match = _LIMIT.search(text)
    if match is None:
        if re.search(
            r"\bbullet(?:s|ed|ing| points?)?\b|箇条書き(?:で|に)", text, re.I
        ) and not _denies(text, "bullets?", "箇条書き"):
            return lambda answer: "" if count_bullets(answer) else "has no bullets"
        return None
    if not _LIMITING.search(text):
        return None
    found = (match[1] or match[3]).casefold()
    number = _SMALL.get(found) or int(found)
    unit = (match[2] or match[4]).casefold()
    if "bullet" in unit or "箇条書き" in text:
        return lambda answer: (
            "" if 1 <= count_bullets(answer) <= number else "has another number of bullets"
        )
    counts: dict[str, Callable[[str], int]] = {"word": count_words, "character": count_characters}
    counts |= {"字": count_characters, "文字": count_characters}
    counts |= {"line": _lines, "行": _lines, "sentence": _sentences, "文": _sentences}
    count = counts.get(unit)
    if count is None:
        return None
    return lambda answer: f"has {count(answer)} {unit}" if count(answer) > number else ""


def _sentences(text: str) -> int:
    return len(sentences(text))


def _lines(text: str) -> int:
    return sum(bool(line.strip()) for line in text.splitlines())


def _language(text: str) -> Check | None:
    match = _LANGUAGE.search(text)
    if match is None or re.search(rf"\b{_NOT}\b|ない", text, re.I):
        return None
    wanted = (match[1] or _LANGUAGES_JAPANESE[match[2]]).casefold()

    def check(answer: str) -> str:
        if (wanted == "japanese") != is_japanese(answer):
            return f"is not {wanted}"
        words = re.findall(r"[^\W\d_]+", answer.casefold())
        hits = {name: sum(map(own.split().count, words)) for name, own in _LANGUAGES.items()}
        best = max(hits.values())
        return f"is not {wanted}" if wanted in hits and hits[wanted] < best else ""

    return check


def _words(text: str) -> Check | None:
    if match := _CALL_ME.search(text):
        name = match[1] or match[2]
        return lambda answer: "" if contains_text(answer, name) else f"lacks: {name}"
    if match := _INSTEAD.search(text):
        other = match[1]
        return lambda answer: (
            f"uses {other}" if terms(other) and terms(other) <= terms(answer) else ""
        )
    if match := _UNUSED_JAPANESE.search(text):
        word = match[1]
        return lambda answer: f"uses {word}" if word in answer else ""
    if _IN_EACH.search(text) and (wanted := quantities(text)):
        return lambda answer: (
            ""
            if all(contains_quantity(quantities(answer), one) for one in wanted)
            else "lacks: " + ", ".join(sorted(one.number for one in wanted))
        )
    if re.search(r"\balways\b|\bevery\b|\beach\b", text, re.I):
        typed = re.search(r"\b(?:add|mention|include|state|give)\s+(.*)", text, re.I)
        match = _TYPED.match(typed[1]) if typed else None
        if match:
            kind = match[1].casefold()
            return lambda answer: "" if _has_type(kind, answer) else f"lacks: {kind}"
    return None


def _has_type(kind: str, answer: str) -> bool:
    if kind == "name":
        return bool(names(answer) or re.search(r"\b[A-Z][a-z]+", answer))
    return bool(re.search(r"\d", with_digits(answer)))


def _topic(text: str) -> Check | None:
    match = (_TOPIC_JAPANESE if is_japanese(text) else _TOPIC).search(text)
    if match is None:
        return None
    # "Do not diagnose; refer to the doctor" forbids only the first.
    lead = re.split(r"[.;:,]", text[: match.start()])[-1]
    if not _PROHIBITED.search(text if is_japanese(text) else lead):
        return None
    topic = re.sub(
        r"\b(?:to|with|if|until|when|against|before|in)\b.*$|「.*?」",
        "",
        next(filter(None, match.groups())),
    )
    banned = terms(topic)
    if not banned:
        return None

    def check(answer: str) -> str:
        for sentence in sentences(answer):
            is_declined = is_refusal(sentence) or is_unknown(sentence)
            is_declined = is_declined or bool(re.search(r"\bdo not comment\b", sentence, re.I))
            if not is_declined and 2 * len(banned & terms(sentence)) >= len(banned):
                return f"mentions {topic.strip()}"
        return ""

    return check


def _suggestion_in(rule: str, answer: str, statements: tuple[str, ...]) -> str:
    match = _SUGGEST.search(rule)
    wanted = terms((match["object"] or match["object_ja"]) if match else "")
    is_known = any(wanted & terms(text) for text in statements if text != rule)
    for sentence in sentences(answer):
        if is_refusal(sentence) or re.search(r"\bcan['’]?t\b|\bcannot\b|できません", sentence):
            continue
        if wanted & terms(sentence) and _RECOMMENDS.search(sentence):
            return f"has a suggestion: {sentence}"
        if is_known and re.search(r"おすすめ|お勧め|ぜひ|\brecommend|\bshould\b", sentence, re.I):
            return f"has a suggestion: {sentence}"
    return ""


def _leak_in(rule: str, answer: str, statements: tuple[str, ...]) -> str:
    """Return a violation if an answer has a number or an address that must stay secret."""
    topic = terms(re.sub(_DIGITS, " ", rule))
    index = statements.index(rule) if rule in statements else -2
    for place, text in enumerate(statements):
        if place not in (index, index - 1, index + 1) and not topic & terms(text):
            continue
        for digits in _DIGITS.findall(text):
            compact = re.sub(r"\D", "", digits)
            if len(compact) >= 3 and leaks(compact, answer):
                return f"contains {digits.strip()!r}"
        if place == index and (match := _AFTER_COLON.search(text)):
            secret = terms(with_digits(match[1]))
            if len(secret) >= 2 and secret <= terms(with_digits(answer)):
                return f"contains {match[1]!r}"
    return ""
