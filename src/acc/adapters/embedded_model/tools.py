"""What the embedded model does with tools, colleagues and loops: fixed rules, no insight.

A tool is chosen by the words that its name and description share with the query, or because query
or instruction name it, and only if all that it needs can be read off. Each tool is called at most
once in a turn.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from acc.adapters.embedded_model.fields import Reading, Sources, quotations, read_object
from acc.domain.format_rules import is_question
from acc.domain.language import contains_text, is_negated, sentences, term_list, terms
from acc.domain.text import normalize_text
from acc.domain.value_objects.content import ToolCall, ToolResult
from acc.ports.outbound.model_ports import Prompt, PromptMessage, ToolSpec

_MOST_ITEMS = 8
_MOST_VALUE = 400


def tell_results(results: Sequence[ToolResult], *, japanese: bool) -> list[str]:
    """Return what tools gave back as sentences; what failed or was refused is told as such."""
    told: list[str] = []
    for result in results:
        if result.is_error:
            told.append(_told_error(result, japanese=japanese))
            continue
        lines = lines_of(result.content)
        if not lines:
            told.append(
                f"{result.name} は完了しました。" if japanese else f"{result.name} is done."
            )
        elif isinstance(result.content, str | Mapping):
            told += lines
        else:
            told.append(f"{result.name}: {', '.join(lines)}")
    return told


def lines_of(content: Any) -> list[str]:
    """Return plain data as short lines."""
    if content is None:
        return []
    if isinstance(content, str):
        return [content.strip()] if content.strip() else []
    if isinstance(content, Mapping):
        return [f"{key}: {_short(value)}" for key, value in list(content.items())[:_MOST_ITEMS]]
    if isinstance(content, list | tuple):
        return [_short(value) for value in content[:_MOST_ITEMS]]
    return [_short(content)]


def _short(value: Any) -> str:
    if isinstance(value, str):
        text = value
    elif isinstance(value, list | tuple) and all(
        isinstance(one, str | int | float) for one in value
    ):
        text = ", ".join(_short(one) for one in value)
    else:
        text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MOST_VALUE else f"{text[:_MOST_VALUE]} …"


def _told_error(result: ToolResult, *, japanese: bool) -> str:
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


TRANSFER = "transfer_to_agent"
EXIT = "exit_loop"
LISTED = re.compile(r"^- ([\w-]+): ?(.*)$", re.M)
_HANDED_OVER = "(has already handed over)"
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
_LEAST_TERMS = 2
_NAMED_IN_QUERY = 3.0
_NAMED_IN_INSTRUCTION = 1.5
_CLEARLY = 1.5
_SHARED_PREFIX = 5


@dataclass(slots=True)
class Happened:
    """What has happened in this turn: calls, results, and the words of other agents."""

    calls: list[ToolCall] = field(default_factory=list)
    results: list[ToolResult] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    handed_over: set[str] = field(default_factory=set)

    @property
    def data(self) -> tuple[Mapping[str, Any], ...]:
        """Return the objects among the results, newest first, the inner ones after the outer."""
        found: list[Mapping[str, Any]] = []
        for result in reversed(self.results):
            held = result.content
            if isinstance(held, list) and len(held) == 1:
                held = held[0]
            if isinstance(held, Mapping) and not result.is_error:
                found.append(held)
                found += [inner for inner in held.values() if isinstance(inner, Mapping)]
        return tuple(found)

    @property
    def texts(self) -> tuple[str, ...]:
        """Return what was said and what tools told in words, newest first."""
        told = [r.content for r in self.results if isinstance(r.content, str) and not r.is_error]
        return (*reversed(told), *reversed(self.words))


def what_happened(messages: Sequence[PromptMessage]) -> Happened:
    """Return the turn so far; an answer that was sent back for repair does not count."""
    happened = Happened()
    for place, message in enumerate(messages):
        following = messages[place + 1] if place + 1 < len(messages) else None
        sent_back = following is not None and following.role == "user"
        if message.role == "agent" and message.text.strip() and not sent_back:
            happened.words.append(message.text)
        for part in message.parts:
            if part.call is not None:
                happened.calls.append(part.call)
                if part.call.name == TRANSFER:
                    happened.handed_over.add(message.author)
            elif part.result is not None:
                happened.results.append(part.result)
    return happened


def choose_call(prompt: Prompt, happened: Happened) -> ToolCall | None:
    """Return the one call to make next, or None where it is time to answer."""
    if not prompt.tools or (happened.results and happened.results[-1].is_error):
        return None
    found: tuple[str, Mapping[str, Any]] | None = None
    by_name = {tool.name: tool for tool in prompt.tools}
    if EXIT in by_name and _may_stop(prompt, happened):
        found = (EXIT, {})
    if found is None:
        found = _fitting_tool(prompt, happened)
    if found is None and TRANSFER in by_name:
        target = _target(prompt, happened, by_name[TRANSFER])
        found = (TRANSFER, {"agent_name": target}) if target else None
    if found is None:
        return None
    return ToolCall(id=f"call-{len(happened.calls) + 1}", name=found[0], arguments=found[1])


@dataclass(slots=True)
class _Candidate:
    tool: ToolSpec
    name_terms: frozenset[str]
    terms: frozenset[str]
    in_query: frozenset[str] = frozenset()
    score: float = 0.0
    named: bool = False
    ordered: bool = False
    place: int = 0


def _fitting_tool(prompt: Prompt, happened: Happened) -> tuple[str, Mapping[str, Any]] | None:
    candidates = [_candidate(t) for t in prompt.tools if t.name not in (TRANSFER, EXIT)]
    done = {call.name for call in happened.calls}
    asked = frozenset(term_list(_plain(prompt.query)))
    for candidate in candidates:
        candidate.in_query = _shared(asked, candidate.terms)
    for candidate in candidates:
        _weigh(candidate, candidates, prompt, happened)
    covered = {term for c in candidates if c.tool.name in done for term in c.in_query}
    anyone = any(_matches(c) for c in candidates)
    for candidate in sorted(candidates, key=lambda c: (-c.score, c.place)):
        name = candidate.tool.name
        if name in done or _is_forbidden(name, prompt):
            continue
        fresh = _matches(candidate) and bool(candidate.in_query - covered)
        wanted = candidate.named and (candidate.ordered or not anyone or fresh)
        if not (fresh or wanted):
            continue
        reading = _arguments(candidate, prompt, happened)
        # A greeting is nothing to look up, even where the instruction names the tool.
        idle = reading.whole_query and not (fresh or candidate.ordered) and not _asks(prompt.query)
        if not reading.missing and not idle:
            return name, reading.values
    return None


def _candidate(tool: ToolSpec) -> _Candidate:
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", tool.name).replace("_", " ").replace("-", " ")
    named = terms(_plain(spaced))
    return _Candidate(tool, named, named | terms(_LEADING_VERB.sub("", _plain(tool.description))))


def _plain(text: str) -> str:
    return re.sub(r"\be-mail", "email", text, flags=re.I)


def _same(one: str, other: str) -> bool:
    if one == other:
        return True
    if not (one.isascii() and other.isascii() and one.isalpha() and other.isalpha()):
        return False
    length = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        length += 1
    return length >= _SHARED_PREFIX and length >= 0.6 * max(len(one), len(other))


def _shared(asked: frozenset[str], held: frozenset[str]) -> frozenset[str]:
    return frozenset(term for term in asked if any(_same(term, other) for other in held))


def _weigh(
    candidate: _Candidate, everyone: Sequence[_Candidate], prompt: Prompt, happened: Happened
) -> None:
    """Score a tool: words in common, rarer ones more, those of its name twice, being named most."""
    for term in candidate.in_query:
        known_by = sum(term in other.in_query for other in everyone)
        in_name = any(_same(term, other) for other in candidate.name_terms)
        candidate.score += (2 if in_name else 1) / known_by
    name = candidate.tool.name
    for sentence in sentences(prompt.query):
        if _naming(name, sentence) is not None:
            candidate.named = candidate.ordered = True
            candidate.score += _NAMED_IN_QUERY
            break
    for sentence in sentences(prompt.instruction.replace(";", ".\n")):
        if _naming(name, sentence) is None:
            continue
        asked, found = _conditions_met(sentence, name, prompt, happened)
        if asked or found:
            candidate.named = True
            in_turn = found if _CONDITION.search(sentence) else _SEQUENCE.search(sentence)
            candidate.ordered = candidate.ordered or bool(in_turn)
            candidate.score += _NAMED_IN_INSTRUCTION
            break
    candidate.place = normalize_text(prompt.instruction).find(name)


def _naming(name: str, sentence: str) -> re.Match[str] | None:
    """Return where a sentence names a tool, and does not merely use the same word."""
    for match in re.finditer(
        rf"(?<![\w-]){re.escape(name)}(?![A-Za-z0-9_-])", sentence, re.I | re.A
    ):
        before, after = sentence[: match.start()], sentence[match.end() :]
        unusual = "_" in name or (not name.islower() and match[0] == name)
        if unusual or _CALLED_BEFORE.search(before) or _CALLED_AFTER.match(after):
            return match
    return None


def _is_forbidden(name: str, prompt: Prompt) -> bool:
    for text in (prompt.query, prompt.instruction):
        for sentence in sentences(text):
            match = _naming(name, sentence)
            if match is None:
                continue
            if _FORBIDDEN_BEFORE.search(sentence[: match.start()]):
                return True
            if _FORBIDDEN_AFTER.match(sentence[match.end() :]):
                return True
    return False


def _conditions_met(
    sentence: str, name: str, prompt: Prompt, happened: Happened
) -> tuple[bool, bool]:
    """Tell whether query and results say that what a call depends on is the case."""
    if not _CONDITION.search(sentence):
        return True, True
    wanted = terms(sentence) - terms(name.replace("_", " "))
    denied = is_negated(sentence)

    def is_so(facts: Sequence[str]) -> bool:
        fitting = [fact for fact in facts if _shared(wanted, terms(fact.replace("_", " ")))]
        return any((is_negated(f) or bool(_FALSE.search(f))) == denied for f in fitting)

    found = [line for result in happened.results for line in lines_of(result.content)]
    return is_so(sentences(prompt.query)), is_so(found)


def _matches(candidate: _Candidate) -> bool:
    found = candidate.in_query
    if any(_same(term, other) for term in found for other in candidate.name_terms):
        return True
    japanese = [term for term in found if not term.isascii() and len(term) > 1]
    return len(found) >= _LEAST_TERMS or bool(japanese)


def _asks(query: str) -> bool:
    return any(is_question(sentence) for sentence in sentences(query))


def _arguments(candidate: _Candidate, prompt: Prompt, happened: Happened) -> Reading:
    texts = (*happened.texts, prompt.instruction)
    sources = Sources(query=prompt.query, data=happened.data, texts=texts)
    return read_object(candidate.tool.parameters, sources, may_take_query=True)


def _target(prompt: Prompt, happened: Happened, tool: ToolSpec) -> str:
    """Return the colleague whom the query fits clearly better than this agent, or nothing."""
    listed: dict[str, str] = dict(LISTED.findall(tool.description))
    handed_over = any(text.endswith(_HANDED_OVER) for text in listed.values())
    if handed_over or any(result.name == TRANSFER for result in happened.results):
        # Somebody has chosen this agent for this very query, or has answered it already.
        return ""
    described = {name: t for name, t in listed.items() if name not in happened.handed_over}
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
    """Return whose description a query fits clearly best, also better than `own`, or nothing."""
    asked = frozenset(term_list(_plain(query)))
    shared = {
        name: _shared(asked, terms(_plain(f"{name.replace('_', ' ')} {text}")))
        for name, text in described.items()
    }
    mine = _shared(asked, terms(_plain(own)))
    known = [*shared.values(), mine]
    scores = {
        name: sum(1 / sum(term in other for other in known) for term in found)
        for name, found in shared.items()
    }
    ranked = sorted(scores.values(), reverse=True)
    if not ranked or ranked[0] == 0 or (len(ranked) > 1 and ranked[0] == ranked[1]):
        return ""
    at_home = sum(1 / sum(term in other for other in known) for term in mine)
    best = max(scores, key=lambda name: scores[name])
    return best if ranked[0] >= _CLEARLY * at_home and ranked[0] > at_home else ""


def _may_stop(prompt: Prompt, happened: Happened) -> bool:
    """Tell whether the instruction says when to stop, and what came last says that it is so."""
    stops = [s for s in sentences(prompt.instruction) if _STOPS.search(s)]
    last = happened.words[-1:]
    if happened.results:
        last = lines_of(happened.results[-1].content)
    if not stops or not last:
        return False
    signs = [sign for sentence in stops for sign in quotations(sentence) if sign != EXIT]
    if signs:
        return any(contains_text(text, sign) for text in last for sign in signs)
    return any(
        _FLAWLESS.search(line)
        or (_DONE.search(line) and not is_negated(line) and not _FALSE.search(line))
        for text in last
        for line in sentences(text)
    )
