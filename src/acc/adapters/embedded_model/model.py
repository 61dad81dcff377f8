"""The embedded model: a deterministic reader that answers with statements from its prompt.

It is a fixed policy, not intelligence: it looks up the statements that share the question's rarer
words, prefers the newest, and puts them into the form that the rules it can see ask for. It knows
nothing but the prompt, treats every memory alike, and has no notion of whom to trust. Where it is
offered tools, colleagues or a schema it uses them by rules as plain as these (see tool_use).
"""

import json
import math
import re
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from acc.adapters.embedded_model.structured import answer_in_schema
from acc.adapters.embedded_model.tools import Happened, choose_call, tell_results, what_happened
from acc.domain.format_rules import is_question, is_revocation, read_rule, revokes, violation
from acc.domain.language import (
    contains_text,
    identifiers,
    is_japanese,
    names,
    numbers,
    omit_middle,
    sentences,
    terms,
)
from acc.domain.statements import frame
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.format_rule import (
    EXCLUSIVE_KINDS,
    NUMERIC_KINDS,
    FormatRule,
    RuleKind,
)
from acc.ports.outbound.model_ports import ModelAnswer, Prompt

_NOTHING = {False: "Nothing to report.", True: "特になし。"}


def compose(statements: Sequence[str], rules: Sequence[FormatRule], *, japanese: bool) -> str:
    """Return an answer of these statements that keeps the rules, fewer of them if it must."""
    by_kind = {rule.kind: rule for rule in rules}
    limits = [rule for rule in rules if rule.kind in NUMERIC_KINDS]
    kept = [tidy(statement) for statement in statements]
    answer = _lay_out(kept, rules, by_kind, japanese=japanese)
    while len(kept) > 1 and any(violation(rule, answer) for rule in limits):
        kept.pop()
        answer = _lay_out(kept, rules, by_kind, japanese=japanese)
    over = [rule for rule in limits if violation(rule, answer)]
    while over and len(kept[0]) > 12:
        words = kept[0].split()
        kept[0] = kept[0][:-6] if japanese or len(words) < 2 else " ".join(words[:-1])
        answer = _lay_out(kept, rules, by_kind, japanese=japanese)
        over = [rule for rule in over if violation(rule, answer)]
    return answer


def tidy(statement: str) -> str:
    """Return a statement that starts and ends as a sentence does."""
    first = statement.split(" ", 1)[0]
    if first.isascii() and first.isalpha() and first.islower():
        statement = statement[0].upper() + statement[1:]
    if statement[-1:].isalnum() and not is_japanese(statement):
        statement += "."
    return statement


def _lay_out(
    statements: Sequence[str],
    rules: Sequence[FormatRule],
    by_kind: dict[RuleKind, FormatRule],
    *,
    japanese: bool,
) -> str:
    if RuleKind.JSON in by_kind:
        return _as_json(statements, by_kind[RuleKind.JSON])
    body = _body(statements, by_kind, japanese=japanese)
    missing = [
        word
        for rule in rules
        if rule.kind is RuleKind.REQUIRE
        for word in rule.words
        if not contains_text(body, word)
    ]
    lines = [body]
    if missing:
        lines += dict.fromkeys(missing)
    if RuleKind.STARTS_WITH in by_kind:
        lines.insert(0, by_kind[RuleKind.STARTS_WITH].words[0])
    if RuleKind.ENDS_WITH in by_kind:
        lines.append(by_kind[RuleKind.ENDS_WITH].words[0])
    return "\n".join(lines)


def _body(statements: Sequence[str], by_kind: dict[RuleKind, FormatRule], *, japanese: bool) -> str:
    if RuleKind.HEADINGS in by_kind:
        return _under_headings(statements, by_kind[RuleKind.HEADINGS], japanese=japanese)
    if RuleKind.EXACT_BULLETS in by_kind:
        wanted = by_kind[RuleKind.EXACT_BULLETS].number
        listed = list(statements[:wanted])
        listed += [_NOTHING[japanese]] * (wanted - len(listed))
        return "\n".join(f"- {statement}" for statement in listed)
    return ("" if japanese else " ").join(statements)


def _under_headings(statements: Sequence[str], rule: FormatRule, *, japanese: bool) -> str:
    sections: dict[str, list[str]] = {heading: [] for heading in rule.words}
    for place, statement in enumerate(statements):
        best = max(
            rule.words,
            key=lambda heading: (len(terms(heading) & terms(statement)), not sections[heading]),
        )
        if not terms(best) & terms(statement):
            best = rule.words[min(place, len(rule.words) - 1)]
        sections[best].append(statement)
    gap = "" if japanese else " "
    lines: list[str] = []
    for heading, content in sections.items():
        lines += [heading, gap.join(content) or _NOTHING[japanese]]
    return "\n".join(lines)


def _as_json(statements: Sequence[str], rule: FormatRule) -> str:
    keys = rule.words or ("answer",)
    values: dict[str, list[str]] = {key: [] for key in keys}
    for place, statement in enumerate(statements):
        named = [key for key in keys if terms(key.replace("_", " ")) & terms(statement)]
        empty = [key for key in named or keys if not values[key]]
        values[(empty or named or keys)[0 if empty or named else min(place, len(keys) - 1)]].append(
            statement
        )
    return json.dumps({key: " ".join(found) for key, found in values.items()}, ensure_ascii=False)


def pieces_of(text: str) -> list[str]:
    """Cut a text into what is shown at a time: words, or a few characters of Japanese."""
    pieces: list[str] = []
    for word in re.findall(r"\s+|\S+\s*", text):
        step = 4 if is_japanese(word) else len(word)
        pieces += [word[start : start + step] for start in range(0, len(word), step)]
    return pieces


_LABEL = re.compile(r"^(?:[a-z]+(?:_[a-z]+)+|[A-Za-z][\w.-]{0,30}): ")
_TYPED = re.compile(r"^(?:[a-z][a-z0-9_]*)\((.+)\)$")
_SUFFIX = re.compile(r" <(?:by )?[^<>]*>$")
_TURN = re.compile(r"^turn \d+: ")
_REQUEST_WORDS = terms(
    "draft write"
    " cover give"
    " summary summarise"
    " summarize update brief executive note short line lines bullet bullets sentence"
    " sentences word"
    " words json"
    " key keys heading"
    " headings question asks answer exactly using use format following point points"
    " 回答 箇条 条書 項目"
    " 文字 字以 以内 文案"
    " 要約 形式 見出 報告"
    " 教 最新 現在 誰 何 今 伝 値 確認 復唱 挙 示 説明 述 作成 書 答 知 整理 比較"
    " 現時 時点 場合 願 前 次 全部 一覧 把握 それぞれ 改 直前 添 会議 画面 出 メモ"
)
_WHO = re.compile(r"\bwho(?:se|m)?\b|誰|どなた|担当者", re.I)
_NUMBER_ASKED = re.compile(
    r"\b(?:when|how (?:many|much|long|far|often)|what time|what date)\b|いつ|何(?:分|時|件|人|台"
    r"|名|日|円|％|%)|いくつ|いくら",
    re.I,
)
_CODE_ASKED = re.compile(
    r"\b(?:which (?:ticket|host|service|cluster|account|region|version)|ticket|identifier|id"
    r"|version)\b|番号|識別子",
    re.I,
)
_RULES_ASKED = re.compile(
    r"\b(?:rules?|limits?|polic(?:y|ies)|constraints?|allowed|permitted|approv\w+|must|may)\b"
    r"|規則|制限|ルール|方針|承認|許可|禁止",
    re.I,
)
_PARTS = re.compile(
    r",?\s+and\s+(?=(?:what|who|which|when|where|how|is|are|was|were|does|do|why|whether)\b)"
    r"|;\s+|\?\s+",
    re.I,
)
_PREFACE = re.compile(r"^.{0,80}?,\s+(?=(?:what|who|whose|which|when|where|how)\b)", re.I)
_LISTED = re.compile(
    r"\b(?:which are|namely|cover(?:ing)?|includ(?:e|ing)|with|stat(?:e|ing)|giv(?:e|ing)"
    r"|list(?:ing)?|mention(?:ing)?|on|of|about|:)\s+(?=.*,\s|.*\band\b)",
    re.I,
)
_ITEMS = re.compile(r",\s*(?:and\s+)?|\s+and\s+")
_ITEMS_JAPANESE = re.compile(
    r"、|と(?=[^、。]{2,}(?:を|は|、))|および|並びに|ならびに|それから|また"
)
_KINDS = ((_WHO, names), (_NUMBER_ASKED, numbers), (_CODE_ASKED, identifiers))
_MOST_STATEMENTS = 6
_MOST_A_PART = 2
_LEAST_COVERED = 0.4
_LEAST_GAIN = 0.3
_NEWNESS = 0.1
_ON_SUBJECT = 1.25
_UNKNOWN = {False: "That has not been stated.", True: "その情報は伺っていません。"}
_REFUSAL = {False: "I cannot share that.", True: "その内容はお伝えできません。"}
_NOTED = {False: "Noted.", True: "承知しました。"}
#: A sentence and its terms.
Statement = tuple[str, frozenset[str]]


@dataclass(slots=True)
class _Reading:
    """What a prompt holds: statements from oldest to newest, and the rules still in force."""

    statements: dict[frozenset[str], str] = field(default_factory=dict)
    rules: list[tuple[str, FormatRule]] = field(default_factory=list)

    def add(self, sentence: str) -> None:
        key, states, ends_a_rule, rule = _understood(sentence)
        if states:
            self.statements.pop(key, None)
            self.statements[key] = sentence
        if ends_a_rule:
            meant = [entry for entry in self.rules if revokes(sentence, entry[0])]
            if meant:
                self.rules = [entry for entry in self.rules if entry not in meant]
                return
        if rule is not None and (not ends_a_rule or rule.kind in NUMERIC_KINDS):
            if rule.kind in EXCLUSIVE_KINDS:
                self.rules = [entry for entry in self.rules if entry[1].kind is not rule.kind]
            self.rules.append((sentence, rule))


@lru_cache(maxsize=4_096)
def _understood(sentence: str) -> tuple[frozenset[str], bool, bool, FormatRule | None]:
    """Return a sentence's terms, whether it states something or ends a rule, and its rule.

    A transcript brings the same sentences back every turn.
    """
    key = terms(sentence)
    read = read_rule(sentence)
    lasting = read is not None and not read.once and read.rule.kind is not RuleKind.POLICY
    rule = read.rule if read is not None and lasting else None
    return key, bool(key) and not is_question(sentence), is_revocation(sentence), rule


class EmbeddedModel:
    """Answers from its prompt alone, in English and Japanese."""

    async def complete(self, prompt: Prompt) -> ModelAnswer:
        """Return a call of the tool that fits, or what answers in the form that is asked for."""
        query = omit_middle(prompt.query)
        if query is not prompt.query:
            prompt = replace(prompt, query=query)
        happened = what_happened(prompt.messages)
        call = choose_call(prompt, happened)
        if call is not None:
            return ModelAnswer(calls=(call,))
        answer = self._answer(prompt, happened)
        if prompt.output_schema is not None:
            answer = answer_in_schema(prompt, happened, answer)
        return ModelAnswer(text=answer)

    async def stream(self, prompt: Prompt) -> AsyncIterator[str | ModelAnswer]:
        """Give the answer piece by piece, then as a whole."""
        answer = await self.complete(prompt)
        for piece in pieces_of(answer.text):
            yield piece
        yield answer

    def _answer(self, prompt: Prompt, happened: Happened) -> str:
        reading = _Reading()
        for sentence in sentences(prompt.instruction):
            reading.add(sentence)
        for sentence in statements_of(prompt.memory):
            reading.add(sentence)
        heard = [sentence for words in happened.words for sentence in sentences(words)]
        for sentence in heard:
            reading.add(sentence)
        spoken = sentences(prompt.query)
        for sentence in spoken:
            reading.add(sentence)
        once = [read.rule for s in spoken if (read := read_rule(s)) is not None and read.once]
        replaced = {rule.kind for rule in once if rule.kind in EXCLUSIVE_KINDS}
        rules = [rule for _, rule in reading.rules if rule.kind not in replaced] + once
        japanese = is_japanese(prompt.query)
        questions = [s for s in spoken if is_question(s) or _asks_in_a_form(s)]
        told = tell_results(happened.results, japanese=japanese)
        if told:
            forbidden = [word for r in rules if r.kind is RuleKind.FORBID for word in r.words]
            chosen = [without(sentence, forbidden) for sentence in told]
        elif heard and not questions:
            chosen = list(sentences(happened.words[-1]))[:_MOST_STATEMENTS]
        else:
            chosen = self._choose(questions, spoken, reading, rules, japanese=japanese)
            if heard and chosen == [_UNKNOWN[japanese]]:
                chosen = list(sentences(happened.words[-1]))[:_MOST_STATEMENTS]
        return compose(chosen, rules, japanese=japanese)

    def _choose(
        self,
        questions: Sequence[str],
        spoken: Sequence[str],
        reading: _Reading,
        rules: Sequence[FormatRule],
        *,
        japanese: bool,
    ) -> list[str]:
        if not questions:
            stated = [s for s in spoken if read_rule(s) is None]
            return stated[:2] or [_NOTED[japanese]]
        asked = terms(" ".join(questions)) - _REQUEST_WORDS
        protected = [terms(word) for r in rules if r.kind is RuleKind.REFUSE for word in r.words]
        if any(_covers(asked, topic) for topic in protected):
            return [_REFUSAL[japanese]]
        about_rules = any(_RULES_ASKED.search(question) for question in questions)
        open_to_use = [
            (sentence, held)
            for held, sentence in reading.statements.items()
            if not (protected and any(_covers(held, topic) for topic in protected))
            and (about_rules or read_rule(sentence) is None)
        ]
        found = pick_all(questions, open_to_use, japanese=japanese)
        if not found:
            # Some people ask without asking: "Wanted on the slide: lead and ticket."
            last = [s for s in spoken if read_rule(s) is None][-1:]
            others = [entry for entry in open_to_use if entry[0] not in last]
            found = pick_all(last, others, japanese=japanese)
        wanted = next((r.number for r in rules if r.kind is RuleKind.EXACT_BULLETS), 0)
        if found and len(found) < wanted:
            spare = [s for s, held in reversed(open_to_use) if s not in found and held & asked]
            found += spare[: wanted - len(found)]
        forbidden = [word for r in rules if r.kind is RuleKind.FORBID for word in r.words]
        found = [without(sentence, forbidden) for sentence in found]
        return [sentence for sentence in found if sentence] or [_UNKNOWN[japanese]]


def _asks_in_a_form(sentence: str) -> bool:
    """Tell whether a rule for this answer also says what to answer."""
    read = read_rule(sentence)
    return read is not None and read.once and len(terms(sentence) - _REQUEST_WORDS) > 2


def parts_of(question: str, *, japanese: bool) -> list[str]:
    """Return the things that one question asks for."""
    if japanese:
        return [part for part in _ITEMS_JAPANESE.split(question) if part and terms(part)]
    parts: list[str] = []
    for part in _PARTS.split(_PREFACE.sub("", question)):
        listed = _LISTED.search(part)
        if listed is None:
            parts.append(part)
        else:
            parts += _ITEMS.split(part[listed.end() :])
    return [part for part in parts if terms(part) - _REQUEST_WORDS]


def pick_all(
    questions: Sequence[str], statements: Sequence[Statement], *, japanese: bool
) -> list[str]:
    """Return the statements that answer the questions, part by part, without repeats."""
    chosen: dict[str, None] = {}
    for question in questions:
        whole = terms(question) - _REQUEST_WORDS
        parts = parts_of(question, japanese=japanese)
        for part in parts:
            asked = terms(part) - _REQUEST_WORDS
            found = pick(part, asked, statements)
            # A part such as "its owner" may say too little by itself.
            if not found and len(parts) > 1 and len(asked) < 2:
                found = pick(part, whole, statements)
            chosen.update(dict.fromkeys(found))
    return list(chosen)[:_MOST_STATEMENTS]


def statements_of(memory: str) -> list[str]:
    """Return the statements in a memory's view, whether it is a transcript or a typed state."""
    return [statement for line in memory.split("\n") for statement in _statements_of_line(line)]


@lru_cache(maxsize=4_096)
def _statements_of_line(line: str) -> tuple[str, ...]:
    found: list[str] = []
    for item in _LABEL.sub("", line).split(" | "):
        bare = _TURN.sub("", _SUFFIX.sub("", item))
        typed = _TYPED.match(bare)
        found.extend(sentences(typed[1] if typed else bare))
    return tuple(found)


def pick(question: str, asked: frozenset[str], statements: Sequence[Statement]) -> list[str]:
    """Return the statements that cover what is asked, the most telling first.

    A statement must add something to the question, and counts for more when its subject is what is
    asked about. A further one is taken only for a good part that is not yet covered. Among equals
    the newest wins.
    """
    usable = [
        (sentence, held)
        for sentence, held in statements
        if not held.isdisjoint(asked) and not held <= asked
    ]
    weights = _weigh(asked, [held for _, held in usable])
    total = sum(weights.values())
    kinds = [reader for pattern, reader in _KINDS if pattern.search(question)]
    standing = [
        _fits(kinds, asked, sentence) * (1 + _NEWNESS * (place + 1) / len(usable))
        for place, (sentence, _) in enumerate(usable)
    ]
    chosen: list[str] = []
    covered: set[str] = set()
    while len(chosen) < _MOST_A_PART:
        best, gain, value = -1, 0.0, 0.0
        for place, (sentence, held) in enumerate(usable):
            fresh = sum(weights[term] for term in held & asked if term not in covered)
            score = standing[place] * fresh / (1 + 0.01 * len(held))
            if score >= value and fresh and sentence not in chosen:
                best, gain, value = place, fresh, score
        if best < 0 or (chosen and gain < _LEAST_GAIN * total):
            break
        covered |= usable[best][1] & asked
        chosen.append(usable[best][0])
    enough = sum(weights[term] for term in covered) >= _LEAST_COVERED * total
    return chosen if enough else []


def _weigh(asked: frozenset[str], held: Sequence[frozenset[str]]) -> dict[str, float]:
    counts = {term: sum(term in entry for entry in held) for term in asked}
    most = math.log(1 + 2 * (len(held) + 1))
    # A word that stands nowhere may be a mere turn of phrase: it counts half.
    return {
        term: math.log(1 + (len(held) + 1) / (count + 0.5)) if count else most / 2
        for term, count in counts.items()
    }


def _fits(
    kinds: Sequence[Callable[[str], frozenset[str]]], asked: frozenset[str], sentence: str
) -> float:
    """Return more than 1 for a statement on the subject, or with the kind of thing, asked for."""
    fitting = 1.0 + 0.2 * sum(bool(reader(sentence)) for reader in kinds)
    taken = frame(sentence)
    return fitting * _ON_SUBJECT if taken is not None and taken.subject <= asked else fitting


def _covers(held: frozenset[str], topic: frozenset[str]) -> bool:
    return bool(topic) and len(held & topic) * 5 >= len(topic) * 3


def without(sentence: str, forbidden: Sequence[str]) -> str:
    """Return the sentence with forbidden words taken out."""
    for word in forbidden:
        if contains_text(sentence, word):
            sentence = re.sub(re.escape(word), "", sentence, flags=re.I)
    return re.sub(r"\s+([,.;:])", r"\1", " ".join(sentence.split())).strip(" ,;:")
