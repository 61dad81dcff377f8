"""Recorded conversations as scenarios: user messages with confirmed annotations."""

import hashlib
import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlencode

import msgspec

from acc.adapters.evaluation.message_logs import read_logs
from acc.adapters.system.decode_errors import field_error_of
from acc.domain.errors import InvalidInput
from acc.domain.language import is_japanese
from acc.domain.value_objects.evaluation_run import ScenarioChoice
from acc.domain.value_objects.proposal import (
    Decision,
    Proposal,
    ProposalKind,
    ProposedConversation,
)
from acc.domain.value_objects.recorded_conversation import RecordedConversation
from acc.domain.value_objects.scenario import (
    Constraint,
    Expectation,
    Fact,
    Scenario,
    ScenarioTurn,
)
from acc.domain.value_objects.stress_topic import StressTopic

REPLAY_REFERENCE = "replay:"
_DOMAIN = "replay"
_HEADER = """\
# Annotations that acc eval propose wrote. Only those with decision = "confirmed" count.
# Confirm or reject them with acc eval confirm, or edit this file: the decision is proposed,
# confirmed or rejected; texts, rules and values may be changed, and annotations added.
"""
_INVALID_ID_CHARACTERS = re.compile(r"[^a-z0-9]+")
_MAX_ID_LENGTH = 60
#: The one character that TOML requires to be escaped and JSON does not.
_DELETE = "\x7f"


@dataclass(frozen=True, slots=True)
class _Source:
    """The files that a replay refers to."""

    path: Path
    form: str = ""
    annotations: Path | None = None

    def version(self) -> tuple[tuple[int, int], ...]:
        """Return the modification times and sizes of the files."""
        files = [path for path in (self.path, self.annotations) if path and path.is_file()]
        return tuple((one.st_mtime_ns, one.st_size) for one in (path.stat() for path in files))

    def reference(self, scenario_id: str) -> str:
        """Return the reference of one conversation."""
        options = {"conversation": scenario_id, "format": self.form}
        if self.annotations is not None:
            options["annotations"] = str(self.annotations)
        given = {name: value for name, value in options.items() if value}
        return f"{REPLAY_REFERENCE}{quote(str(self.path))}?{urlencode(given, quote_via=quote)}"


class ReplayLibrary:
    """The conversations of logs as scenarios; an unchanged file is parsed once."""

    def __init__(self) -> None:
        self._scenarios: dict[tuple[_Source, object], dict[str, Scenario]] = {}

    def references(
        self, path: Path, *, form: str = "", annotations: Path | None = None
    ) -> tuple[str, ...]:
        """Return the reference of each conversation of a log, or raise InvalidInput."""
        source = _Source(path, form, annotations)
        return tuple(source.reference(name) for name in self._read(source))

    def scenario(self, reference: str) -> Scenario:
        """Return the conversation of a reference, or raise InvalidInput."""
        path, _, query = reference.removeprefix(REPLAY_REFERENCE).rpartition("?")
        options = {name: found[0] for name, found in parse_qs(query).items()}
        annotations = options.get("annotations")
        source = _Source(
            Path(unquote(path)),
            options.get("format", ""),
            None if annotations is None else Path(annotations),
        )
        found = self._read(source).get(name := options.get("conversation", ""))
        if found is None:
            raise InvalidInput(
                f"{source.path} no longer has a conversation {name!r}; restore the log, or start "
                "a new evaluation run"
            )
        return found

    def choice(self, reference: str) -> ScenarioChoice:
        """Return the description of a conversation for a configuration."""
        scenario = self.scenario(reference)
        return ScenarioChoice(
            reference=reference,
            id=scenario.id,
            domain=scenario.domain,
            language=scenario.language,
            digest=hashlib.sha256(msgspec.json.encode(scenario.turns)).hexdigest(),
        )

    def _read(self, source: _Source) -> dict[str, Scenario]:
        key = source, source.version()
        if key not in self._scenarios:
            conversations = read_logs(source.path, source.form)
            annotated: dict[str, ProposedConversation] = {}
            if source.annotations is not None:
                annotated = {one.id: one for one in read_annotations(source.annotations)}
                known = {one.id for one in conversations}
                if unknown := sorted(annotated.keys() - known):
                    raise InvalidInput(
                        f"{source.annotations}: {source.path} has no conversation {unknown[0]!r}; "
                        "these annotations belong to another file"
                    )
            ids = scenario_ids(source.path.stem, [one.id for one in conversations])
            self._scenarios[key] = {
                scenario_id: as_scenario(
                    scenario_id, one, annotated.get(one.id), str(source.annotations)
                )
                for scenario_id, one in zip(ids, conversations, strict=True)
            }
        return self._scenarios[key]


def scenario_ids(stem: str, names: Sequence[str]) -> list[str]:
    """Return a unique id for each conversation: letters, digits and hyphens."""
    plain = [_plain_id(name) for name in names]
    counts = Counter(plain)
    prefix = _plain_id(stem) or "conversation"
    return [
        name if name and not name.isdigit() and counts[name] == 1 else f"{prefix}-{number}"
        for number, name in enumerate(plain, 1)
    ]


def _plain_id(name: str) -> str:
    folded = unicodedata.normalize("NFKC", name).casefold()
    return _INVALID_ID_CHARACTERS.sub("-", folded).strip("-")[:_MAX_ID_LENGTH].strip("-")


def as_scenario(
    scenario_id: str,
    conversation: RecordedConversation,
    annotated: ProposedConversation | None = None,
    source: str = "",
) -> Scenario:
    """Return the user messages of a conversation with the confirmed annotations."""
    queries = [message.text for message in conversation.messages if message.role == "user"]
    proposals: dict[int, tuple[Proposal, ...]] = {}
    for turn in annotated.turns if annotated is not None else ():
        if not 0 < turn.turn <= len(queries) or queries[turn.turn - 1] != turn.query:
            raise InvalidInput(
                f"{source}: conversation {conversation.id!r}, turn {turn.turn}: the query differs "
                "from the recorded message; write the annotations again with acc eval propose"
            )
        proposals[turn.turn] = turn.proposals
    builder = _AnnotatedTurns()
    japanese = sum(map(is_japanese, queries))
    return Scenario(
        id=scenario_id,
        title=f"Replay of {conversation.id}",
        domain=_DOMAIN,
        language="ja" if japanese * 2 > len(queries) else "en",
        seed=0,
        turns=tuple(
            builder.turn(number, query, proposals.get(number, ()))
            for number, query in enumerate(queries, 1)
        ),
    )


class _AnnotatedTurns:
    """Builds turns from confirmed proposals; tracks the active rules and facts."""

    def __init__(self) -> None:
        self._facts: set[str] = set()
        self._rules: set[str] = set()

    def turn(self, number: int, query: str, proposals: Sequence[Proposal]) -> ScenarioTurn:
        """Return a turn; only confirmed proposals have an effect."""
        confirmed = [one for one in proposals if one.decision is Decision.CONFIRMED]
        rules = [one for one in confirmed if one.kind in _RULES]
        facts = [one for one in confirmed if one.kind in _FACTS]
        # A change of a rule or fact that was not confirmed introduces it.
        new_rules = [one for one in rules if one.id not in self._rules]
        new_facts = [one for one in facts if one.id not in self._facts]
        self._rules |= {one.id for one in rules}
        self._facts |= {one.id for one in facts}
        lifted = [one.id for one in confirmed if one.kind is ProposalKind.LIFTED_RULE]
        lifts = tuple(name for name in dict.fromkeys(lifted) if name in self._rules)
        self._rules -= set(lifts)
        return ScenarioTurn(
            turn_id=number,
            topic=StressTopic.SETUP,
            query=query,
            facts=tuple(map(_fact, new_facts)),
            updates=tuple(_fact(one) for one in facts if one not in new_facts),
            constraints=tuple(map(_constraint, new_rules)),
            amends=tuple(_constraint(one) for one in rules if one not in new_rules),
            lifts=lifts,
            once=tuple(one.rule for one in confirmed if one.kind is ProposalKind.ONCE and one.rule),
            expects=tuple(
                Expectation(any_of=(value,)) for value in _values(confirmed, ProposalKind.EXPECT)
            ),
            avoids=tuple(_values(confirmed, ProposalKind.AVOID)),
        )


_RULES = frozenset({ProposalKind.RULE, ProposalKind.CHANGED_RULE})
_FACTS = frozenset({ProposalKind.FACT, ProposalKind.CHANGED_FACT})
_WITH_RULE = _RULES | {ProposalKind.ONCE}
_WITH_ID = _RULES | _FACTS | {ProposalKind.LIFTED_RULE}
_WITH_VALUES = frozenset({ProposalKind.EXPECT, ProposalKind.AVOID})


def _values(proposals: Iterable[Proposal], kind: ProposalKind) -> list[str]:
    return [value for one in proposals if one.kind is kind for value in one.values]


def _fact(proposal: Proposal) -> Fact:
    return Fact(id=proposal.id, text=proposal.text, values=proposal.values)


def _constraint(proposal: Proposal) -> Constraint:
    if proposal.rule is None:
        raise InvalidInput(
            f"annotation {proposal.id!r} requires a rule; set `rule`, or reject the annotation"
        )
    return Constraint(id=proposal.id, text=proposal.text, rule=proposal.rule)


class _AnnotationFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The content of a file of annotations."""

    conversations: list[ProposedConversation] = []


def read_annotations(path: Path) -> tuple[ProposedConversation, ...]:
    """Return the annotations in a file, or raise InvalidInput."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8-sig"))
        content = msgspec.convert(raw, _AnnotationFile)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror or error}") from error
    except msgspec.ValidationError as error:
        field, text = field_error_of(error, _AnnotationFile)
        raise InvalidInput(f"{path}: {field}: {text}") from error
    except ValueError as error:
        raise InvalidInput(f"{path} is not a file of annotations: {error}") from error
    for conversation in content.conversations:
        for turn in conversation.turns:
            for proposal in turn.proposals:
                if missing := _missing_field(proposal):
                    raise InvalidInput(
                        f"{path}: conversation {conversation.id!r}, turn {turn.turn}: an "
                        f"annotation of kind {proposal.kind} requires {missing}"
                    )
    return tuple(content.conversations)


def _missing_field(proposal: Proposal) -> str:
    if proposal.kind in _WITH_ID and not proposal.id:
        return "an id"
    if proposal.kind in _WITH_RULE and proposal.rule is None:
        return 'a rule, such as rule = { kind = "max_words", number = 60 }'
    if proposal.kind in _WITH_VALUES and not any(value.strip() for value in proposal.values):
        return "values"
    return ""


def annotation_text(conversations: Iterable[ProposedConversation]) -> str:
    """Return the annotations as TOML."""
    lines = [_HEADER]
    for conversation in conversations:
        lines += ["[[conversations]]", f"id = {_toml(conversation.id)}", ""]
        for turn in conversation.turns:
            lines += ["[[conversations.turns]]", f"turn = {turn.turn}"]
            lines += [f"query = {_toml(turn.query)}", ""]
            for proposal in turn.proposals:
                lines += ["[[conversations.turns.proposals]]", *_proposal_lines(proposal), ""]
    return "\n".join(lines)


def _proposal_lines(proposal: Proposal) -> list[str]:
    fields: dict[str, Any] = {"kind": proposal.kind.value, "id": proposal.id, "text": proposal.text}
    if proposal.rule is not None:
        rule = proposal.rule
        given = {"kind": rule.kind.value, "number": rule.number, "words": list(rule.words)}
        fields["rule"] = {name: value for name, value in given.items() if value}
    fields["values"] = list(proposal.values)
    fields["decision"] = proposal.decision.value
    return [f"{name} = {_toml(value)}" for name, value in fields.items() if value]


def _toml(value: object) -> str:
    """Return a text, number, list or table as TOML; texts are written as in JSON."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{name} = {_toml(one)}" for name, one in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return msgspec.json.encode(value).decode().replace(_DELETE, "\\u007f")
