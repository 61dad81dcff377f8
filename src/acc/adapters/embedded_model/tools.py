"""Fixed rules by which the embedded model calls tools, transfers and leaves loops.

A tool is selected by the terms that its name and description share with the query, or because the
query or the instruction names it, and only if all required arguments can be read from the prompt.
Each tool is called at most once in a turn.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from acc.adapters.embedded_model.fields import Sources, quotations, read_object
from acc.domain.format_rules import is_question
from acc.domain.language import (
    contains_text,
    is_negated,
    normalize_text,
    sentences,
    term_list,
    terms,
)
from acc.domain.value_objects.content import CORRECTION_AUTHOR, ChatMessage, ToolCall, ToolResult
from acc.ports.outbound.model_ports import ModelRequest, ToolSpec

_MAX_ITEMS = 8
_MAX_VALUE_LENGTH = 400


def describe_results(results: Sequence[ToolResult], *, japanese: bool) -> list[str]:
    """Return tool results as sentences, including failed and denied calls."""
    described: list[str] = []
    for result in results:
        if result.is_error:
            described.append(_describe_error(result, japanese=japanese))
            continue
        lines = _content_lines(result.content)
        if not lines:
            described.append(
                f"{result.name} は完了しました。" if japanese else f"{result.name} is done."
            )
        elif isinstance(result.content, str | Mapping):
            described += lines
        else:
            described.append(f"{result.name}: {', '.join(lines)}")
    return described


def _content_lines(content: Any) -> list[str]:
    """Return JSON data as short lines."""
    if content is None:
        return []
    if isinstance(content, str):
        return [content.strip()] if content.strip() else []
    if isinstance(content, Mapping):
        return [
            f"{key}: {_format_value(value)}" for key, value in list(content.items())[:_MAX_ITEMS]
        ]
    if isinstance(content, list | tuple):
        return [_format_value(value) for value in content[:_MAX_ITEMS]]
    return [_format_value(content)]


def _format_value(value: Any) -> str:
    if isinstance(value, str):
        text = value
    elif isinstance(value, list | tuple) and all(
        isinstance(one, str | int | float) for one in value
    ):
        text = ", ".join(_format_value(one) for one in value)
    else:
        text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_VALUE_LENGTH else f"{text[:_MAX_VALUE_LENGTH]} …"


def _describe_error(result: ToolResult, *, japanese: bool) -> str:
    content = result.content if isinstance(result.content, Mapping) else {"error": result.content}
    if "status" in content:
        why = content.get("reason") or content["status"]
        if japanese:
            return f"{result.name} は実行されませんでした: {why}"
        return f"{result.name} was not carried out: {why}"
    text = str(content.get("error", ""))
    if japanese:
        return f"{result.name} は完了できませんでした: {text}"
    return text if result.name in text else f"{result.name} failed: {text}"


_TRANSFER = "transfer_to_agent"
_EXIT = "exit_loop"
AGENT_LIST_ITEM = re.compile(r"^- ([\w-]+): ?(.*)$", re.M)
_ALREADY_TRANSFERRED = "(has already handed over)"
_LEADING_VERB = re.compile(r"^(?:returns?|gets?|fetch(?:es)?|calls?)\s+", re.I | re.M)
_CONDITION = re.compile(r"\b(?:if|when|whenever|once|unless)\b|場合|なら|たら|とき|時は", re.I)
_SEQUENCE = re.compile(
    r"\b(?:first|then|next|always|after|finally|must|step|every)\b"
    r"|まず|次に|必ず|最後に|その後|続いて|常に",
    re.I,
)
_FORBIDDEN_BEFORE = re.compile(
    r"\b(?:never|not|without|avoid|cannot)\b(?:\W+\w+){0,3}\W*$|n['’]t\b(?:\W+\w+){0,3}\W*$", re.I
)
_FORBIDDEN_AFTER = re.compile(
    r"^\W?[はをの]?[^。、]{0,12}(?:ないで|しない|禁止|不可|わず|ばず|せず)"
)
_CALLED_BEFORE = re.compile(r"(?:\b(?:call|use|run|invoke|tool|via)\b[^\w.]{1,3}|[`「])$", re.I)
_CALLED_AFTER = re.compile(
    r"^(?:[`(」]|\s+(?:tool|function)\b|\s*(?:ツール|を(?:呼|使|実行)))", re.I
)
_STOPS = re.compile(
    r"\b(?:exit_loop|stop|exit|end|finish|leave)\b|exit_loop|終了|止め|抜け|終わら", re.I | re.ASCII
)
_DONE = re.compile(
    r"\b(?:final|good|done|complete|completed|finished|approved|ready|ok|okay|passed|lgtm)\b"
    r"|完了|完成|承認|合格|問題(?:は)?(?:あり?ません|ない|なし)|良い|最終版",
    re.I,
)
_FLAWLESS = re.compile(r"問題(?:は)?(?:あり?ません|ない|なし)|\bno (?:issues?|problems?|errors?)\b")
_FALSE = re.compile(r"\bfalse\b|いいえ|まだ|\byet\b", re.I)
_CLAUSE = re.compile(r"[,;、。.\n]|\band\b", re.I)
_MIN_SHARED_TERMS = 2
_NAMED_IN_QUERY_BONUS = 3.0
_NAMED_IN_INSTRUCTION_BONUS = 1.5
_TRANSFER_MARGIN = 1.5
_MIN_SHARED_PREFIX = 5


@dataclass(slots=True)
class TurnHistory:
    """Calls, results and messages of other agents in this turn."""

    calls: list[ToolCall] = field(default_factory=list)
    results: list[ToolResult] = field(default_factory=list)
    agent_texts: list[str] = field(default_factory=list)
    transferred: set[str] = field(default_factory=set)

    @property
    def data(self) -> tuple[Mapping[str, Any], ...]:
        """Return the result objects, newest first, nested objects after their parents."""
        objects: list[Mapping[str, Any]] = []
        for result in reversed(self.results):
            content = result.content
            if isinstance(content, list) and len(content) == 1:
                content = content[0]
            if isinstance(content, Mapping) and not result.is_error:
                objects.append(content)
                objects += [inner for inner in content.values() if isinstance(inner, Mapping)]
        return tuple(objects)

    @property
    def texts(self) -> tuple[str, ...]:
        """Return text results and agent messages, newest first."""
        results = [r.content for r in self.results if isinstance(r.content, str) and not r.is_error]
        return (*reversed(results), *reversed(self.agent_texts))


def message_texts(messages: Sequence[ChatMessage]) -> list[str]:
    """Return the texts of messages, with tool results as lines."""
    texts: list[str] = []
    for message in messages:
        plain = "".join([part.text for part in message.parts if part.text is not None])
        texts.append(plain)
        for part in message.parts:
            if part.result is not None:
                texts += _content_lines(part.result.content)
    return [text for text in texts if text.strip()]


def turn_history(messages: Sequence[ChatMessage]) -> TurnHistory:
    """Return the history of a turn without answers that were returned for correction."""
    history = TurnHistory()
    for index, message in enumerate(messages):
        following = messages[index + 1] if index + 1 < len(messages) else None
        returned = following is not None and following.author == CORRECTION_AUTHOR
        if message.role == "assistant" and message.text.strip() and not returned:
            history.agent_texts.append(message.text)
        for part in message.parts:
            if part.call is not None:
                history.calls.append(part.call)
                if part.call.name == _TRANSFER:
                    history.transferred.add(message.author)
            elif part.result is not None:
                history.results.append(part.result)
    return history


def choose_call(prompt: ModelRequest, history: TurnHistory) -> ToolCall | None:
    """Return the next tool call, or None if the model should answer."""
    if not prompt.tools or (history.results and history.results[-1].is_error):
        return None
    choice = _choose_tool(prompt, history)
    if choice is None:
        return None
    name, arguments = choice
    return ToolCall(id=f"call-{len(history.calls) + 1}", name=name, arguments=arguments)


def _choose_tool(
    prompt: ModelRequest, history: TurnHistory
) -> tuple[str, Mapping[str, Any]] | None:
    by_name = {tool.name: tool for tool in prompt.tools}
    if _EXIT in by_name and _should_exit(prompt, history):
        return _EXIT, {}
    choice = _matching_tool(prompt, history)
    if choice is None and _TRANSFER in by_name:
        target = _transfer_target(prompt, history, by_name[_TRANSFER])
        return (_TRANSFER, {"agent_name": target}) if target else None
    return choice


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A tool and the query terms that its name or description shares."""

    tool: ToolSpec
    name_terms: frozenset[str]
    shared: frozenset[str]

    @property
    def matches(self) -> bool:
        """Return True if the tool shares enough terms with the query."""
        if any(_is_same_term(term, other) for term in self.shared for other in self.name_terms):
            return True
        japanese = [term for term in self.shared if not term.isascii() and len(term) > 1]
        return len(self.shared) >= _MIN_SHARED_TERMS or bool(japanese)


@dataclass(frozen=True, slots=True)
class _Mention:
    """Whether query or instruction name a tool, require it, and how much that adds."""

    named: bool
    ordered: bool
    bonus: float


def _matching_tool(
    prompt: ModelRequest, history: TurnHistory
) -> tuple[str, Mapping[str, Any]] | None:
    query_terms = frozenset(term_list(_plain(prompt.query)))
    tools = [tool for tool in prompt.tools if tool.name not in (_TRANSFER, _EXIT)]
    candidates = [_candidate(tool, query_terms) for tool in tools]
    mentions = {tool.name: _mention(tool.name, prompt, history) for tool in tools}
    instruction = normalize_text(prompt.instruction)

    def rank(candidate: _Candidate) -> tuple[float, int]:
        name = candidate.tool.name
        score = _score(candidate, candidates) + mentions[name].bonus
        return -score, instruction.find(name)

    done = {call.name for call in history.calls}
    covered = {term for c in candidates if c.tool.name in done for term in c.shared}
    any_match = any(candidate.matches for candidate in candidates)
    for candidate in sorted(candidates, key=rank):
        name = candidate.tool.name
        if name in done or _is_forbidden(name, prompt):
            continue
        mention = mentions[name]
        fresh = candidate.matches and bool(candidate.shared - covered)
        wanted = mention.named and (mention.ordered or not any_match or fresh)
        if not (fresh or wanted):
            continue
        sources = Sources(
            query=prompt.query, data=history.data, texts=(*history.texts, prompt.instruction)
        )
        extracted = read_object(candidate.tool.parameters, sources, may_take_query=True)
        # A greeting is not a query, even if the instruction names the tool.
        idle = extracted.took_query and not (fresh or mention.ordered) and not _asks(prompt.query)
        if not extracted.missing and not idle:
            return name, extracted.values
    return None


def _candidate(tool: ToolSpec, query_terms: frozenset[str]) -> _Candidate:
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", tool.name).replace("_", " ").replace("-", " ")
    name_terms = terms(_plain(spaced))
    tool_terms = name_terms | terms(_LEADING_VERB.sub("", _plain(tool.description)))
    return _Candidate(tool, name_terms, _shared(query_terms, tool_terms))


def _score(candidate: _Candidate, candidates: Sequence[_Candidate]) -> float:
    """Return the weight of the shared terms; rare terms weigh more."""
    score = 0.0
    for term in candidate.shared:
        frequency = sum(term in other.shared for other in candidates)
        in_name = any(_is_same_term(term, other) for other in candidate.name_terms)
        score += (2 if in_name else 1) / frequency
    return score


def _mention(name: str, prompt: ModelRequest, history: TurnHistory) -> _Mention:
    in_query = any(_find_mention(name, sentence) for sentence in sentences(prompt.query))
    bonus = _NAMED_IN_QUERY_BONUS if in_query else 0.0
    for sentence in sentences(prompt.instruction.replace(";", ".\n")):
        if _find_mention(name, sentence) is None:
            continue
        met_by_query, met_by_results = _conditions_met(sentence, name, prompt, history)
        if met_by_query or met_by_results:
            conditional = _CONDITION.search(sentence)
            ordered = met_by_results if conditional else bool(_SEQUENCE.search(sentence))
            return _Mention(True, in_query or ordered, bonus + _NAMED_IN_INSTRUCTION_BONUS)
    return _Mention(in_query, in_query, bonus)


def _plain(text: str) -> str:
    return re.sub(r"\be-mail", "email", text, flags=re.I)


def _is_same_term(one: str, other: str) -> bool:
    if one == other:
        return True
    if not (one.isascii() and other.isascii() and one.isalpha() and other.isalpha()):
        return False
    length = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        length += 1
    return length >= _MIN_SHARED_PREFIX and length >= 0.6 * max(len(one), len(other))


def _shared(query_terms: frozenset[str], candidates: frozenset[str]) -> frozenset[str]:
    return frozenset(
        term for term in query_terms if any(_is_same_term(term, other) for other in candidates)
    )


def _find_mention(name: str, sentence: str) -> re.Match[str] | None:
    """Return the match where a sentence names a tool rather than using the same word."""
    for match in re.finditer(
        rf"(?<![\w-]){re.escape(name)}(?![A-Za-z0-9_-])", sentence, re.I | re.A
    ):
        before, after = sentence[: match.start()], sentence[match.end() :]
        unusual = "_" in name or (not name.islower() and match[0] == name)
        if unusual or _CALLED_BEFORE.search(before) or _CALLED_AFTER.match(after):
            return match
    return None


def _is_forbidden(name: str, prompt: ModelRequest) -> bool:
    for text in (prompt.query, prompt.instruction):
        for sentence in sentences(text):
            match = _find_mention(name, sentence)
            if match is None:
                continue
            if _FORBIDDEN_BEFORE.search(sentence[: match.start()]):
                return True
            if _FORBIDDEN_AFTER.match(sentence[match.end() :]):
                return True
    return False


def _conditions_met(
    sentence: str, name: str, prompt: ModelRequest, history: TurnHistory
) -> tuple[bool, bool]:
    """Return whether the query and the results satisfy the condition of a call."""
    if not _CONDITION.search(sentence):
        return True, True
    wanted = terms(sentence) - terms(name.replace("_", " "))
    denied = is_negated(sentence)

    def is_satisfied(facts: Sequence[str]) -> bool:
        fitting = [fact for fact in facts if _shared(wanted, terms(fact.replace("_", " ")))]
        return any((is_negated(f) or bool(_FALSE.search(f))) == denied for f in fitting)

    lines = [line for result in history.results for line in _content_lines(result.content)]
    return is_satisfied(sentences(prompt.query)), is_satisfied(lines)


def _asks(query: str) -> bool:
    return any(is_question(sentence) for sentence in sentences(query))


def _transfer_target(prompt: ModelRequest, history: TurnHistory, tool: ToolSpec) -> str:
    """Return the agent that matches the query clearly better than this one, or ''."""
    listed: dict[str, str] = dict(AGENT_LIST_ITEM.findall(tool.description))
    transferred = any(text.endswith(_ALREADY_TRANSFERRED) for text in listed.values())
    if transferred or any(result.name == _TRANSFER for result in history.results):
        # This agent was chosen for this query, or the query was answered already.
        return ""
    described = {name: t for name, t in listed.items() if name not in history.transferred}
    for name in described:
        word = rf"(?<![\w-]){re.escape(name)}(?![A-Za-z0-9_-])"
        if terms(name) and re.search(word, prompt.query, re.I | re.A):
            return name
    own: list[str] = []
    for clause in _CLAUSE.split(prompt.instruction):
        meant = [name for name in described if contains_text(clause, name)]
        for name in meant:
            described[name] += f" {clause}"
        if not meant:
            own.append(clause)
    return best_described(prompt.query, described, " ".join(own))


def best_described(query: str, described: Mapping[str, str], own: str) -> str:
    """Return the name whose description matches a query best, and better than `own`."""
    query_terms = frozenset(term_list(_plain(query)))
    shared = {
        name: _shared(query_terms, terms(_plain(f"{name.replace('_', ' ')} {text}")))
        for name, text in described.items()
    }
    own_terms = _shared(query_terms, terms(_plain(own)))
    known = [*shared.values(), own_terms]
    scores = {
        name: sum(1 / sum(term in other for other in known) for term in matches)
        for name, matches in shared.items()
    }
    ranked = sorted(scores.values(), reverse=True)
    if not ranked or ranked[0] == 0 or (len(ranked) > 1 and ranked[0] == ranked[1]):
        return ""
    own_score = sum(1 / sum(term in other for other in known) for term in own_terms)
    best = max(scores, key=lambda name: scores[name])
    return best if ranked[0] >= _TRANSFER_MARGIN * own_score and ranked[0] > own_score else ""


def _should_exit(prompt: ModelRequest, history: TurnHistory) -> bool:
    """Return True if the last message meets the exit condition of the instruction."""
    stops = [s for s in sentences(prompt.instruction) if _STOPS.search(s)]
    last = history.agent_texts[-1:]
    if history.results:
        last = _content_lines(history.results[-1].content)
    if not stops or not last:
        return False
    signs = [sign for sentence in stops for sign in quotations(sentence) if sign != _EXIT]
    if signs:
        return any(contains_text(text, sign) for text in last for sign in signs)
    return any(
        _FLAWLESS.search(line)
        or (_DONE.search(line) and not is_negated(line) and not _FALSE.search(line))
        for text in last
        for line in sentences(text)
    )
