"""The code blocks and commands of docs/frameworks.md are executed with the real frameworks."""

import gc
import re
import runpy
import shlex
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from acc.cli import execute

PAGE = (Path(__file__).parents[2] / "docs" / "frameworks.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.S)
COMMANDS = re.findall(r"^\$ (acc .*)$", PAGE, re.M)
#: The modules that stand for code of the reader.
OWN_MODULES = {
    "my_adk": "scripted_google_adk",
    "my_agent_framework": "scripted_agent_framework",
    "my_inspect_model": "scripted_inspect",
    "my_langgraph": "scripted_langgraph",
    "my_openai_agents": "scripted_openai_agents",
    "my_pydantic_ai": "scripted_pydantic_ai",
}
PACKAGES = (
    "agent_framework",
    "agents",
    "google.adk",
    "inspect_ai",
    "langchain",
    "langgraph",
    "pydantic_ai",
)

pytestmark = [
    pytest.mark.skipif(
        any(find_spec(name.partition(".")[0]) is None for name in PACKAGES),
        reason="make test-frameworks installs all frameworks",
    ),
    # Inspect leaves streams open that it does not use any more.
    pytest.mark.filterwarnings("ignore:Unclosed <MemoryObject:ResourceWarning"),
]


@pytest.fixture(autouse=True)
def own_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, module in OWN_MODULES.items():
        monkeypatch.setitem(sys.modules, name, import_module(module))


@pytest.mark.parametrize("block", BLOCKS, ids=range(1, len(BLOCKS) + 1))
def test_code_block_prints_what_its_comments_say(
    block: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "block.py"
    file.write_text(block, encoding="utf-8")
    runpy.run_path(str(file), run_name="__main__")
    gc.collect()  # while the warnings about streams are ignored
    expected = re.findall(r"^print\(.*\)  # (.*)$", block, re.M)
    assert capsys.readouterr().out.splitlines()[: len(expected)] == expected or not expected


@pytest.mark.parametrize("command", COMMANDS)
def test_command_succeeds(command: str) -> None:
    assert execute(shlex.split(command)[1:]) == 0
