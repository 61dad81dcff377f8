"""The information-flow policy: find the tool calls that a person must decide.

An agent reads text of others, and this text may cause a call. A ledger collects what the agent has
read. Three texts are trusted: text of the user, text of the developer, and results of tools that
are labelled as trusted. After the first untrusted result, the values of a call must come from
trusted text, or from records that were looked up with trusted values.
"""

import json
import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from acc.domain.addresses import address_key, addresses, decode
from acc.domain.language import term_list
from acc.domain.value_objects.base import JsonData
from acc.domain.value_objects.flow import (
    FlowRule,
    ParameterRole,
    ToolLabels,
    Violation,
)

#: Longer values of a result are texts rather than identifiers or names.
_MAX_SHORT_LENGTH = 200
_MAX_SHOWN_LENGTH = 200
#: Shorter texts can occur in two results by chance.
_MIN_REPEATED_LENGTH = 12
#: Shorter numbers in the text of the user may be counts, days or list items.
_MIN_NUMBER_LENGTH = 3
#: Names of fields with text that others wrote. Addresses in them are not trusted.
_TEXT_FIELDS = re.compile(
    r"body|content|description|text|note|comment|message|subject|title|summary|review|feedback"
    r"|snippet|detail|remark|reason|bio|本文|内容|説明|備考|件名|メモ|コメント|題名|要約|感想|理由",
    re.I,
)
_MODEL_ORIGIN = "the model"
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
#: A character of a Japanese word: kanji or katakana. Japanese has no spaces between words, but
#: particles are hiragana, so they end a word.
_JAPANESE_WORD_CHARACTER = re.compile("[\u3400-\u9fff\uf900-\ufaff\u30a1-\u30fa\u30fc々]")
#: A kanji that can follow a name directly without being a part of it, such as 様.
_JAPANESE_SUFFIX = re.compile("[様殿氏君宛行間内外前後上下等他]")


@dataclass(frozen=True, slots=True)
class _Source:
    """A result that may be the origin of a value."""

    tool: str
    text: str
    trusted: bool


@dataclass(slots=True)
class FlowLedger:
    """What the agents of a run have read, and which of its values calls may contain."""

    #: True after the first untrusted result.
    is_tainted: bool = False
    _trusted_text: str = ""
    #: The trusted text without its addresses: a part of an address is not a value of its own.
    _trusted_prose: str = ""
    _trusted_terms: set[str] = field(default_factory=set)
    _trusted_address_keys: set[str] = field(default_factory=set)
    #: Short values of all results.
    _result_values: set[str] = field(default_factory=set)
    #: Short values of records that were looked up with trusted values.
    _record_values: set[str] = field(default_factory=set)
    #: Keys of the addresses in address fields of these records.
    _record_address_keys: set[str] = field(default_factory=set)
    _untrusted_texts: list[str] = field(default_factory=list)
    _sources: list[_Source] = field(default_factory=list)
    #: Approved values: tool, path of the parameter, text.
    _approved: set[tuple[str, str, str]] = field(default_factory=set)

    def trust(self, text: str) -> None:
        """Add text of the user or of the developer."""
        text = unicodedata.normalize("NFKC", text)
        self._trusted_text += f"\n{text}\n"
        self._trusted_terms.update(term_list(text))
        found = addresses(text)
        self._trusted_address_keys.update(a.key for a in found if not a.is_disguised)
        for address in sorted(found, key=lambda a: len(a.text), reverse=True):
            text = text.replace(address.text, " ")
        self._trusted_prose += f"\n{text}\n"

    def distrust(self) -> None:
        """Record that an agent has read untrusted data: from now on, values are checked."""
        self.is_tainted = True

    def trusted_fragments(self, text: str) -> tuple[str, ...]:
        """Return the sentences of a text that are trusted text, and its trusted addresses."""
        known = self._trusted_address_keys | self._record_address_keys
        sentences = (sentence.strip() for sentence in _SENTENCE_END.split(text))
        return tuple(
            dict.fromkeys(
                (
                    *(s for s in sentences if term_list(s) and _occurs(s, self._trusted_text)),
                    *(a.text for a in addresses(text) if not a.is_disguised and a.key in known),
                )
            )
        )

    def approve(self, tool: str, arguments: Mapping[str, JsonData]) -> None:
        """Accept values that a person has approved for a parameter of a tool."""
        self._approved.update(
            (tool, path, text) for path, text in _checked_values(arguments, arguments)
        )

    def observe(
        self,
        tool: str,
        labels: ToolLabels,
        arguments: Mapping[str, JsonData],
        content: JsonData,
        fields: Collection[str] = (),
    ) -> None:
        """Add the result of a call; `fields` are the names that the schema of the tool declares."""
        data = _parsed(content)
        texts = [text for _, text in _texts_by_path(data)]
        text = "\n".join(texts)
        is_trusted = labels.trusted and not self._repeats_untrusted(texts)
        if self._is_trusted_query(arguments, _declared_names(labels, arguments, fields)):
            # Not from `data`: if the result is a text with JSON in it, others may have written it.
            self._add_records(content)
        self._result_values.update(_short_values(data))
        self._sources.append(_Source(tool, text, is_trusted))
        if is_trusted:
            self._trusted_terms.update(term_list(text))
            # After untrusted data, an injected instruction may have chosen what the agent reads.
            if not self.is_tainted:
                self.trust(text)
        elif _contains_text(data):
            self._untrusted_texts += [t for t in texts if len(t) >= _MIN_REPEATED_LENGTH]
            self.is_tainted = True

    def check(
        self,
        tool: str,
        labels: ToolLabels,
        arguments: Mapping[str, JsonData],
        plan: Collection[str],
        fields: Collection[str] = (),
    ) -> tuple[Violation, ...]:
        """Return the violations of a call; none if it is allowed.

        `fields` are the names that the schema of the tool declares. Other names in the arguments
        are checked like values, because a name can be an address.
        """
        violations: list[Violation] = []
        if labels.is_write and tool not in plan:
            violations.append(Violation(rule=FlowRule.PLAN))
        if not self.is_tainted:
            return tuple(violations)
        if labels.secret and not labels.is_write and tool not in plan:
            violations.append(Violation(rule=FlowRule.SECRET))
        for path, text in _checked_values(arguments, _declared_names(labels, arguments, fields)):
            if not text.strip() or (tool, path, text) in self._approved:
                continue
            violations += self._check_value(labels, path, text)
        return tuple(violations)

    def _check_value(self, labels: ToolLabels, path: str, text: str) -> Iterator[Violation]:
        """Yield the violations of one value.

        - TARGET: the value must be trusted.
        - REF: the value must be trusted, or a short value of a result. For a destructive tool, the
          result must be a record that was looked up with trusted values.
        - NAME: each word must be trusted.
        - TEXT of a tool with effects: each address in it must be trusted.
        """
        role = labels.role_of(path)
        if role is ParameterRole.TARGET:
            if not self._is_trusted_target(text):
                yield self._violation(FlowRule.TARGET, path, text)
        elif role is ParameterRole.REF:
            is_destructive = labels.effect == "destructive"
            known_values = self._record_values if is_destructive else self._result_values
            # "1." in the user's text is a list item rather than the identifier of an object.
            is_ambiguous = is_destructive and text.isdecimal() and len(text) < _MIN_NUMBER_LENGTH
            if text not in known_values and (is_ambiguous or not self._is_trusted_target(text)):
                yield self._violation(FlowRule.REF, path, text)
        elif role is ParameterRole.NAME:
            if not self._consists_of_trusted_words(text):
                yield self._violation(FlowRule.NAME, path, text)
        elif labels.is_write:
            known_keys = self._trusted_address_keys | self._record_address_keys
            for address in addresses(text):
                if address.is_disguised or address.key not in known_keys:
                    yield self._violation(FlowRule.TEXT, path, address.text)

    def _violation(self, rule: FlowRule, path: str, value: str) -> Violation:
        shown = value if len(value) <= _MAX_SHOWN_LENGTH else f"{value[:_MAX_SHOWN_LENGTH]}…"
        origin = next(
            (
                f"{'the' if source.trusted else 'the untrusted'} result of {source.tool}"
                for source in reversed(self._sources)
                if value in source.text
            ),
            _MODEL_ORIGIN,
        )
        return Violation(rule=rule, parameter=path, value=shown, origin=origin)

    def _is_trusted_target(self, text: str) -> bool:
        """Return True if a value occurs in trusted text, or in an address field of a record."""
        if key := address_key(text):
            return key in self._trusted_address_keys or key in self._record_address_keys
        if addresses(text):  # an address among other text, or a disguised one
            return False
        return _occurs(text, self._trusted_prose)

    def _consists_of_trusted_words(self, text: str) -> bool:
        """Return True if all words and addresses in a value are trusted, in any order."""
        if _occurs(text, self._trusted_text):
            return True
        if any(a.is_disguised or a.key not in self._trusted_address_keys for a in addresses(text)):
            return False
        words = term_list(text)
        return bool(words) and self._trusted_terms.issuperset(words)

    def _is_trusted_query(
        self, arguments: Mapping[str, JsonData], declared: Collection[str]
    ) -> bool:
        """Return True if the arguments of a call contain words, and all values are trusted."""
        texts = [text for _, text in _checked_values(arguments, declared) if text.strip()]
        has_words = any(term_list(leaf) for leaf in _leaves(arguments) if isinstance(leaf, str))
        return has_words and all(
            self._is_trusted_target(text) or self._consists_of_trusted_words(text) for text in texts
        )

    def _add_records(self, content: JsonData) -> None:
        """Add the short values of the records in a result, and the addresses in address fields.

        A field is an address field if all its values in the result are single addresses, and if
        its name does not match `_TEXT_FIELDS`.
        """
        by_field: dict[str, list[str]] = {}
        for record in _objects(content):
            self._record_values.update(_short_values(record))
            for name, value in record.items():
                values = value if isinstance(value, list | tuple) else [value]
                if not isinstance(value, Mapping):
                    by_field.setdefault(str(name), []).extend(
                        v for v in values if isinstance(v, str) and v.strip()
                    )
        for name, values in by_field.items():
            keys = [address_key(value) for value in values]
            if all(keys) and not _TEXT_FIELDS.search(name):
                self._record_address_keys.update(keys)

    def _repeats_untrusted(self, texts: Sequence[str]) -> bool:
        """Return True if a result repeats text of an untrusted one, for example from the state."""
        if not self._untrusted_texts:
            return False
        not_trusted = (text for text in texts if not _occurs(text, self._trusted_text))
        return any(
            untrusted in text or (len(text) >= _MIN_REPEATED_LENGTH and text in untrusted)
            for text in not_trusted
            for untrusted in self._untrusted_texts
        )


def _occurs(value: str, text: str) -> bool:
    """Return True if a value occurs verbatim in a text, and not as a part of a longer value."""
    value = value.strip()
    if not value or value != decode(value) or value != unicodedata.normalize("NFKC", value):
        return False
    # The patterns reject a longer value around the value, such as `user@evil.com` around `evil`.
    start = end = ""
    if _is_latin(value[0]):
        start = r"(?<![A-Za-z0-9])(?<![A-Za-z0-9][@.+%_-])"
    elif _JAPANESE_WORD_CHARACTER.match(value[0]):
        start = rf"(?<!{_JAPANESE_WORD_CHARACTER.pattern})"
    if _is_latin(value[-1]):
        end = r"(?![A-Za-z0-9])(?![@.+%_/-][A-Za-z0-9])(?!:\d)"
    elif _JAPANESE_WORD_CHARACTER.match(value[-1]):
        end = rf"(?!{_JAPANESE_WORD_CHARACTER.pattern})|(?={_JAPANESE_SUFFIX.pattern})"
        end = f"(?:{end})"
    return re.search(f"{start}{re.escape(value)}{end}", text) is not None


def _is_latin(character: str) -> bool:
    return character.isascii() and character.isalnum()


def _parsed(content: JsonData) -> JsonData:
    """Return the data of a text that is a JSON object or array; other content is not changed."""
    if isinstance(content, str) and content.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            return content
    return content


def _contains_text(data: JsonData) -> bool:
    """Return True if data contains a text, which may be an instruction."""
    return any(isinstance(leaf, str) and leaf.strip() for leaf in _leaves(data, keys=True))


def _leaves(data: JsonData, *, keys: bool = False) -> Iterator[JsonData]:
    """Yield the values in data that are not containers, and the keys of objects if requested."""
    if isinstance(data, Mapping):
        if keys:
            yield from data
        for value in data.values():
            yield from _leaves(value, keys=keys)
    elif isinstance(data, list | tuple | set | frozenset):
        for value in data:
            yield from _leaves(value, keys=keys)
    else:
        yield data


def _texts_by_path(data: JsonData, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each value that is not a container, a boolean or null."""
    if isinstance(data, Mapping):
        for key, value in data.items():
            yield from _texts_by_path(value, f"{path}.{key}" if path else str(key))
    elif isinstance(data, list | tuple | set | frozenset):
        for value in data:
            yield from _texts_by_path(value, path)
    elif isinstance(data, str):
        yield path, data
    elif data is not None and not isinstance(data, bool):
        yield path, str(data)


def _checked_values(
    arguments: Mapping[str, JsonData], declared: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each value in arguments, and of each undeclared name.

    The path of a name at the top level is the name. The path of another name is that of its object.
    """
    yield from ((name, name) for name in arguments if name not in declared)
    yield from _texts_by_path(arguments)
    for name, value in arguments.items():
        yield from ((path, key) for path, key in _field_names(value, name) if key not in declared)


def _field_names(data: JsonData, path: str) -> Iterator[tuple[str, str]]:
    """Yield the path of each object, with each name in it."""
    if isinstance(data, Mapping):
        for name, value in data.items():
            yield path, str(name)
            yield from _field_names(value, f"{path}.{name}")
    elif isinstance(data, list | tuple):
        for value in data:
            yield from _field_names(value, path)


def _declared_names(
    labels: ToolLabels, arguments: Mapping[str, JsonData], fields: Collection[str]
) -> Collection[str]:
    """Return the names that the schema and the labels of a tool declare; they are not checked.

    For a tool without a schema, all names of parameters count as declared, except addresses.
    """
    labelled = (*(labels.target or ()), *labels.ref, *labels.name)
    return {
        *(fields or (name for name in arguments if not addresses(name))),
        *(part for path in labelled for part in path.split(".")),
    }


def _short_values(data: JsonData) -> Iterator[str]:
    """Yield the short values and keys in data: these can be identifiers or names."""
    for leaf in _leaves(data, keys=True):
        if leaf is not None and not isinstance(leaf, bool):
            text = str(leaf)
            if len(text) <= _MAX_SHORT_LENGTH and "\n" not in text:
                yield text


def _objects(data: JsonData) -> Iterator[Mapping[str, JsonData]]:
    """Yield the objects in data, also nested ones."""
    if isinstance(data, Mapping):
        yield data
        for value in data.values():
            yield from _objects(value)
    elif isinstance(data, list | tuple):
        for value in data:
            yield from _objects(value)
