"""Settings that a model does not take: they are left out when it says so, and not sent again."""

import logging
import re
from collections.abc import Iterator, Mapping
from typing import Any

from acc.adapters.providers.wires.wire import Settings, merged

#: What an answer can be had without; the first that an error names goes first.
_MAY_GO = ("seed", "top_p", "temperature", "thinking", "include")
#: Names within settings that say nothing about whose they are.
_ANYONES = frozenset({"generationConfig", "output_config", "type"})
_REFUSALS = (400, 422)
_CODES = frozenset({"unknown_parameter", "unsupported_parameter", "unsupported_value"})
_WORDS = re.compile(
    r"(?i)unsupported|not support|n.t support|deprecated"
    r"|not (?:allowed|available|compatible|enabled|permitted)"
    r"|unknown|unrecogni[sz]ed|unexpected|extra input|only .{0,40}default|may only"
    r"|cannot (?:both )?be|does not (?:accept|take)|not accept"
)
#: How an error begins that is about what was said, and no setting.
_OF_WHAT_WAS_SAID = re.compile(r"(?:messages|contents|input|tools)[.\[]")
log = logging.getLogger("acc.run")


class LeavingOut:
    """The settings of one model, without those that it turned out not to take."""

    def __init__(self, name: str, settings: Settings, chosen: set[str]) -> None:
        self._name = name
        self._settings = dict(settings)
        for setting in sorted(chosen - settings.keys()):
            self._warn(setting)
        self.sent = merged(*settings.values())

    def leaves_out(self, sent: Mapping[str, Any], status: int, error: object) -> bool:
        """Tell whether a refused request, that had `sent` in it, is worth asking again without.

        Whoever asked at the same time may have found out already.
        """
        if status not in _REFUSALS or not isinstance(error, Mapping):
            return False
        for setting in _MAY_GO:
            if setting in self._settings and _is_refused(error, self._settings[setting], setting):
                del self._settings[setting]
                self.sent = merged(*self._settings.values())
                self._warn(setting)
                break
        return sent != self.sent

    def _warn(self, setting: str) -> None:
        log.warning("%s does not take %s, which is left out", self._name, setting)


def _is_refused(error: Mapping[str, Any], part: Mapping[str, Any], setting: str) -> bool:
    spelled = "|".join(map(_pattern, {setting, *_names(part)} - _ANYONES))
    named = re.compile(rf"(?i)(?<![a-z0-9])(?:{spelled})(?![a-z0-9])")
    message, param = str(error.get("message") or ""), error.get("param")
    if _OF_WHAT_WAS_SAID.match(message):
        return False
    if param and isinstance(param, str):
        is_told = error.get("code") in _CODES or bool(_WORDS.search(message))
        return is_told and bool(named.search(param))
    return bool(named.search(message) and _WORDS.search(message))


def _names(part: Mapping[str, Any]) -> Iterator[str]:
    for name, value in part.items():
        yield name
        if isinstance(value, Mapping):
            yield from _names(value)


def _pattern(name: str) -> str:
    """Return how a name may be spelled: topP, top_p, top p."""
    return "[_ ]?".join(re.findall(r"[a-z0-9]+|[A-Z][a-z0-9]*", name))
