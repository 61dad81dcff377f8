"""The texts of the console."""

import re
from pathlib import Path

import acc.adapters.console
from acc.adapters.console.texts import JAPANESE, select_language, translate
from acc.domain.value_objects.event import TRANSIENT, EventKind
from acc.domain.value_objects.run import RunStatus
from acc.domain.value_objects.task import TaskState

TEMPLATES = Path(acc.adapters.console.__path__[0]) / "templates"


def test_every_text_of_the_templates_is_translated() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in TEMPLATES.glob("*.html"))
    texts = set(re.findall(r'\bt\("([^"]+)"\)', sources))
    texts |= set(re.findall(r'\("[^"]*", "(?:/[^"]*", ")?([A-Z][^"]*)"\)', sources))
    assert len(texts) > 80
    assert texts - set(JAPANESE) == set()


def test_kinds_and_states_are_translated() -> None:
    stored = {kind.value for kind in EventKind if kind not in TRANSIENT}
    states = {state.value for state in (*RunStatus, *TaskState)}
    assert (stored | states) - set(JAPANESE) == set()


def test_unknown_text_is_returned_unchanged() -> None:
    assert translate("my_tool", "ja") == "my_tool"
    assert translate("my_tool", "en") == "my_tool"
    assert translate("tool_calls", "en") == "tool calls"


def test_language_is_that_of_the_first_known_entry() -> None:
    assert select_language("fr-FR, ja-JP;q=0.9, en;q=0.8") == "ja"
    assert select_language("en-GB,en;q=0.5") == "en"
    assert select_language("") == "en"
