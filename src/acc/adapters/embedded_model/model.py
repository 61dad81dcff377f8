"""Deterministic model that answers with statements from its prompt, without an LLM.

It selects the statements that share the rarer terms of the question, prefers the newest, and
formats them as the visible rules require. It uses nothing but the prompt, treats all memories alike
and does not check whom a statement comes from. Tools, transfers and schemas are used by fixed rules
too (see `tools` and `structured`).
"""

import json
import math
import re
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from acc.adapters.embedded_model.structured import answer_in_schema
from acc.adapters.embedded_model.tools import (
    TurnHistory,
    choose_call,
    describe_results,
    message_texts,
    turn_history,
)
from acc.application.memory.messages import file_text, part_text
from acc.domain.errors import ModelFailed
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
from acc.domain.statement_frames import frame
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.content import user_message
from acc.domain.value_objects.format_rule import (
    EXCLUSIVE_KINDS,
    NUMERIC_KINDS,
    FormatRule,
    RuleKind,
)
from acc.ports.outbound.model_ports import ModelRequest, ModelResponse

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
_MAX_STATEMENTS = 6
_MAX_STATEMENTS_PER_PART = 2
_MIN_COVERAGE = 0.4
_MIN_GAIN = 0.3
_RECENCY_BONUS = 0.1
_SUBJECT_FACTOR = 1.25
_UNKNOWN = {False: "That has not been stated.", True: "その情報は伺っていません。"}
_REFUSAL = {False: "I cannot share that.", True: "その内容はお伝えできません。"}
_NOTED = {False: "Noted.", True: "承知しました。"}
#: A sentence and its terms.
_Statement = tuple[str, frozenset[str]]
_NOTHING = {False: "Nothing to report.", True: "特になし。"}


class EmbeddedModel:
    """Language model that answers from its prompt alone, in English and Japanese."""

    input_types: tuple[str, ...] = ()

    async def complete(self, prompt: ModelRequest) -> ModelResponse:
        """Return a tool call, or an answer in the required format."""
        if prompt.native_tools:
            raise ModelFailed(
                f"embedded: the model has no native tool {', '.join(prompt.native_tools)}. Use a "
                "model of a provider that has it, or pass a function as a tool",
                reason="not_possible",
                model="embedded",
            )
        parts = prompt.messages[prompt.query_index].parts
        query = omit_middle("\n".join(file_text(part) or part_text(part) for part in parts))
        if query != prompt.query:
            index = prompt.query_index
            messages = (*prompt.earlier, user_message(query), *prompt.following)
            prompt = replace(prompt, messages=messages, query_index=index)
        history = turn_history(prompt.following)
        call = choose_call(prompt, history)
        if call is not None:
            return ModelResponse(calls=(call,))
        answer = _answer(prompt, history)
        if prompt.output_schema is not None:
            answer = answer_in_schema(prompt, history, answer)
        return ModelResponse(text=answer)

    async def stream(self, prompt: ModelRequest) -> AsyncIterator[str | ModelResponse]:
        """Yield the answer in pieces, then the complete response."""
        answer = await self.complete(prompt)
        for piece in _stream_pieces(answer.text):
            yield piece
        yield answer


def _answer(prompt: ModelRequest, history: TurnHistory) -> str:
    content = _PromptContent()
    for sentence in sentences(prompt.instruction):
        content.add(sentence)
    for text in (prompt.memory, *message_texts(prompt.earlier)):
        for sentence in _memory_statements(text):
            content.add(sentence)
    agent_sentences = [s for text in history.agent_texts for s in sentences(text)]
    for sentence in agent_sentences:
        content.add(sentence)
    query = prompt.query
    query_sentences = sentences(query)
    for sentence in query_sentences:
        content.add(sentence)
    once = [r.rule for s in query_sentences if (r := read_rule(s)) is not None and r.once]
    replaced = {rule.kind for rule in once if rule.kind in EXCLUSIVE_KINDS}
    rules = [rule for _, rule in content.rules if rule.kind not in replaced] + once
    japanese = is_japanese(query)
    questions = [s for s in query_sentences if is_question(s) or _is_formatted_request(s)]
    results = describe_results(history.results, japanese=japanese)
    if results:
        forbidden = [word for r in rules if r.kind is RuleKind.FORBID for word in r.words]
        chosen = [_remove_words(sentence, forbidden) for sentence in results]
    elif agent_sentences and not questions:
        chosen = list(sentences(history.agent_texts[-1]))[:_MAX_STATEMENTS]
    else:
        chosen = _choose(questions, query_sentences, content, rules, japanese=japanese)
        if agent_sentences and chosen == [_UNKNOWN[japanese]]:
            chosen = list(sentences(history.agent_texts[-1]))[:_MAX_STATEMENTS]
    return _compose(chosen, rules, japanese=japanese)


def _choose(
    questions: Sequence[str],
    query_sentences: Sequence[str],
    content: "_PromptContent",
    rules: Sequence[FormatRule],
    *,
    japanese: bool,
) -> list[str]:
    """Return the statements that answer the questions, or a fixed sentence."""
    if not questions:
        statements = [s for s in query_sentences if read_rule(s) is None]
        return statements[:2] or [_NOTED[japanese]]
    wanted = terms(" ".join(questions)) - _REQUEST_WORDS
    protected = [terms(word) for r in rules if r.kind is RuleKind.REFUSE for word in r.words]
    if any(_covers(wanted, topic) for topic in protected):
        return [_REFUSAL[japanese]]
    about_rules = any(_RULES_ASKED.search(question) for question in questions)
    usable = [
        (sentence, sentence_terms)
        for sentence_terms, sentence in content.statements.items()
        if not (protected and any(_covers(sentence_terms, topic) for topic in protected))
        and (about_rules or read_rule(sentence) is None)
    ]
    result = _select_all(questions, usable, japanese=japanese)
    if not result:
        # A request without a question: "Wanted on the slide: lead and ticket."
        last = [s for s in query_sentences if read_rule(s) is None][-1:]
        others = [entry for entry in usable if entry[0] not in last]
        result = _select_all(last, others, japanese=japanese)
    count = next((r.number for r in rules if r.kind is RuleKind.EXACT_BULLETS), 0)
    if result and len(result) < count:
        spare = [s for s, s_terms in reversed(usable) if s not in result and s_terms & wanted]
        result += spare[: count - len(result)]
    forbidden = [word for r in rules if r.kind is RuleKind.FORBID for word in r.words]
    result = [_remove_words(sentence, forbidden) for sentence in result]
    return [sentence for sentence in result if sentence] or [_UNKNOWN[japanese]]


# --- content of a prompt


@dataclass(slots=True)
class _PromptContent:
    """Statements of a prompt, oldest first, and the rules in force."""

    statements: dict[frozenset[str], str] = field(default_factory=dict)
    rules: list[tuple[str, FormatRule]] = field(default_factory=list)

    def add(self, sentence: str) -> None:
        key, is_statement, revocation, rule = _parse_sentence(sentence)
        if is_statement:
            self.statements.pop(key, None)
            self.statements[key] = sentence
        if revocation:
            revoked = [entry for entry in self.rules if revokes(sentence, entry[0])]
            if revoked:
                self.rules = [entry for entry in self.rules if entry not in revoked]
                return
        if rule is not None and (not revocation or rule.kind in NUMERIC_KINDS):
            if rule.kind in EXCLUSIVE_KINDS:
                self.rules = [entry for entry in self.rules if entry[1].kind is not rule.kind]
            self.rules.append((sentence, rule))


@lru_cache(maxsize=4_096)
def _parse_sentence(sentence: str) -> tuple[frozenset[str], bool, bool, FormatRule | None]:
    """Return terms, statement flag, revocation flag and rule of a sentence.

    Cached, because a transcript repeats the same sentences every turn.
    """
    key = terms(sentence)
    read = read_rule(sentence)
    lasting = read is not None and not read.once and read.rule.kind is not RuleKind.POLICY
    rule = read.rule if read is not None and lasting else None
    return key, bool(key) and not is_question(sentence), is_revocation(sentence), rule


def _memory_statements(memory: str) -> list[str]:
    """Return the statements of a memory view, either a transcript or a state."""
    return [statement for line in memory.split("\n") for statement in _line_statements(line)]


@lru_cache(maxsize=4_096)
def _line_statements(line: str) -> tuple[str, ...]:
    result: list[str] = []
    for item in _LABEL.sub("", line).split(" | "):
        bare = _TURN.sub("", _SUFFIX.sub("", item))
        typed = _TYPED.match(bare)
        result.extend(sentences(typed[1] if typed else bare))
    return tuple(result)


def _is_formatted_request(sentence: str) -> bool:
    """Return True if a rule for this answer also asks for content."""
    read = read_rule(sentence)
    return read is not None and read.once and len(terms(sentence) - _REQUEST_WORDS) > 2


# --- selection of statements


def _split_question(question: str, *, japanese: bool) -> list[str]:
    """Return the parts of a question, one for each requested item."""
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


def _select_all(
    questions: Sequence[str], statements: Sequence[_Statement], *, japanese: bool
) -> list[str]:
    """Return the statements that answer the parts of the questions."""
    chosen: dict[str, None] = {}
    for question in questions:
        whole = terms(question) - _REQUEST_WORDS
        parts = _split_question(question, japanese=japanese)
        for part in parts:
            wanted = terms(part) - _REQUEST_WORDS
            matches = _select(part, wanted, statements)
            # A part such as "its owner" may contain too few terms.
            if not matches and len(parts) > 1 and len(wanted) < 2:
                matches = _select(part, whole, statements)
            chosen.update(dict.fromkeys(matches))
    return list(chosen)[:_MAX_STATEMENTS]


def _select(question: str, wanted: frozenset[str], statements: Sequence[_Statement]) -> list[str]:
    """Return the statements that cover the wanted terms, best first.

    A statement must add a term to the question, and has a higher score if its subject is wanted. A
    further statement must cover a large enough part of the remaining terms. If scores are equal,
    the newest statement is selected.
    """
    usable = [
        (sentence, sentence_terms)
        for sentence, sentence_terms in statements
        if not sentence_terms.isdisjoint(wanted) and not sentence_terms <= wanted
    ]
    weights = _weigh(wanted, [sentence_terms for _, sentence_terms in usable])
    total = sum(weights.values())
    kinds = [reader for pattern, reader in _KINDS if pattern.search(question)]
    factors = [
        _match_factor(kinds, wanted, sentence) * (1 + _RECENCY_BONUS * (index + 1) / len(usable))
        for index, (sentence, _) in enumerate(usable)
    ]
    chosen: list[str] = []
    covered: set[str] = set()
    while len(chosen) < _MAX_STATEMENTS_PER_PART:
        best, gain, best_score = -1, 0.0, 0.0
        for index, (sentence, sentence_terms) in enumerate(usable):
            fresh = sum(weights[term] for term in sentence_terms & wanted if term not in covered)
            score = factors[index] * fresh / (1 + 0.01 * len(sentence_terms))
            if score >= best_score and fresh and sentence not in chosen:
                best, gain, best_score = index, fresh, score
        if best < 0 or (chosen and gain < _MIN_GAIN * total):
            break
        covered |= usable[best][1] & wanted
        chosen.append(usable[best][0])
    enough = sum(weights[term] for term in covered) >= _MIN_COVERAGE * total
    return chosen if enough else []


def _weigh(wanted: frozenset[str], statements: Sequence[frozenset[str]]) -> dict[str, float]:
    """Return the weight of each wanted term; rarer terms weigh more."""
    counts = {term: sum(term in entry for entry in statements) for term in wanted}
    max_weight = math.log(1 + 2 * (len(statements) + 1))
    # A term that no statement contains may be a figure of speech and has half the weight.
    return {
        term: math.log(1 + (len(statements) + 1) / (count + 0.5)) if count else max_weight / 2
        for term, count in counts.items()
    }


def _match_factor(
    kinds: Sequence[Callable[[str], frozenset[str]]], wanted: frozenset[str], sentence: str
) -> float:
    """Return a factor above 1 if a statement has the wanted subject or kind of value."""
    factor = 1.0 + 0.2 * sum(bool(reader(sentence)) for reader in kinds)
    parsed = frame(sentence)
    return factor * _SUBJECT_FACTOR if parsed is not None and parsed.subject <= wanted else factor


def _covers(sentence_terms: frozenset[str], topic: frozenset[str]) -> bool:
    return bool(topic) and len(sentence_terms & topic) * 5 >= len(topic) * 3


# --- format of the answer


def _compose(statements: Sequence[str], rules: Sequence[FormatRule], *, japanese: bool) -> str:
    """Return an answer that follows the rules, shortened to fit their limits."""
    by_kind = {rule.kind: rule for rule in rules}
    limits = [rule for rule in rules if rule.kind in NUMERIC_KINDS]
    remaining = [_tidy(statement) for statement in statements]
    answer = _format(remaining, rules, by_kind, japanese=japanese)
    while len(remaining) > 1 and any(violation(rule, answer) for rule in limits):
        remaining.pop()
        answer = _format(remaining, rules, by_kind, japanese=japanese)
    violated = [rule for rule in limits if violation(rule, answer)]
    while violated and len(remaining[0]) > 12:
        words = remaining[0].split()
        remaining[0] = remaining[0][:-6] if japanese or len(words) < 2 else " ".join(words[:-1])
        answer = _format(remaining, rules, by_kind, japanese=japanese)
        violated = [rule for rule in violated if violation(rule, answer)]
    return answer


def _tidy(statement: str) -> str:
    """Return a statement with an initial capital and a full stop."""
    first = statement.split(" ", 1)[0]
    if first.isascii() and first.isalpha() and first.islower():
        statement = statement[0].upper() + statement[1:]
    if statement[-1:].isalnum() and not is_japanese(statement):
        statement += "."
    return statement


def _format(
    statements: Sequence[str],
    rules: Sequence[FormatRule],
    by_kind: dict[RuleKind, FormatRule],
    *,
    japanese: bool,
) -> str:
    if RuleKind.JSON in by_kind:
        return _format_json(statements, by_kind[RuleKind.JSON])
    body = _format_body(statements, by_kind, japanese=japanese)
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


def _format_body(
    statements: Sequence[str], by_kind: dict[RuleKind, FormatRule], *, japanese: bool
) -> str:
    if RuleKind.HEADINGS in by_kind:
        return _format_headings(statements, by_kind[RuleKind.HEADINGS], japanese=japanese)
    if RuleKind.EXACT_BULLETS in by_kind:
        wanted = by_kind[RuleKind.EXACT_BULLETS].number
        listed = list(statements[:wanted])
        listed += [_NOTHING[japanese]] * (wanted - len(listed))
        return "\n".join(f"- {statement}" for statement in listed)
    return ("" if japanese else " ").join(statements)


def _format_headings(statements: Sequence[str], rule: FormatRule, *, japanese: bool) -> str:
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


def _format_json(statements: Sequence[str], rule: FormatRule) -> str:
    keys = rule.words or ("answer",)
    values: dict[str, list[str]] = {key: [] for key in keys}
    for place, statement in enumerate(statements):
        named = [key for key in keys if terms(key.replace("_", " ")) & terms(statement)]
        empty = [key for key in named or keys if not values[key]]
        values[(empty or named or keys)[0 if empty or named else min(place, len(keys) - 1)]].append(
            statement
        )
    joined = {key: " ".join(texts) for key, texts in values.items()}
    return json.dumps(joined, ensure_ascii=False)


def _remove_words(sentence: str, forbidden: Sequence[str]) -> str:
    """Return a sentence without forbidden words."""
    for word in forbidden:
        if contains_text(sentence, word):
            sentence = re.sub(re.escape(word), "", sentence, flags=re.I)
    return re.sub(r"\s+([,.;:])", r"\1", " ".join(sentence.split())).strip(" ,;:")


def _stream_pieces(text: str) -> list[str]:
    """Split a text into words, or into a few characters of Japanese."""
    pieces: list[str] = []
    for word in re.findall(r"\s+|\S+\s*", text):
        step = 4 if is_japanese(word) else len(word)
        pieces += [word[start : start + step] for start in range(0, len(word), step)]
    return pieces
