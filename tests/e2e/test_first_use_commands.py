"""Mistakes in first commands: the error names the user's file and line, and the fix."""

import os
import re
from pathlib import Path

import pytest
from forked_command import run_command

FILES = {
    "fine.py": "from acc import Agent\nroot = Agent(name='a', model='embedded')\nnumber = 3\n"
    "async def later():\n    return root\n",
    "missing_package.py": "import os\nimport package_that_is_not_installed\n",
    "wrong_name.py": "from acc import Agentt\n",
    "wrong_option.py": "from acc import Agent\n\ndef make():\n"
    "    return Agent(name='a', instructions='x')\n\nroot = make()\n",
    "wrong_runner.py": "from acc import Agent, Runner\nroot = Agent(name='a')\n"
    "Runner(root, store=3)\n",
    "wrong_json.py": "import json\nroot = json.loads('{')\n",
    "division.py": "x = 1\ny = x / 0\n",
    "syntax.py": "x = 1\ndef f(:\n",
    "subclass.py": "from acc import Agent\nclass Own(Agent):\n    pass\n",
    "exits.py": "import sys\nsys.exit(3)\n",
}
COMMANDS = {
    "no attribute": ("run fine hi", "MODULE:AGENT"),
    "file without attribute": ("run fine.py hi", "FILE.py:AGENT"),
    "misspelled attribute": ("run fine:rot hi", "did you mean fine:root?"),
    "misspelled module": ("run fin:root hi", "no module 'fin'.*write fin.py:NAME"),
    "file as module": (
        "eval --agents m=python:fine.py:root --dry-run",
        "'fine.py' is a file; write the name of the module: fine:NAME",
    ),
    "repeated stub": (
        "run fine:root hi --debug --stub t=1 --stub t=2",
        "--stub t is given 2 times",
    ),
    "stub that is not JSON": (
        "run fine:root hi --debug --stub t={a:1}",
        "--stub t: the value begins like JSON but is not valid JSON",
    ),
    "missing file": ("run fin.py:root hi", "file fin.py does not exist"),
    "no agent": ("run fine:number hi", "of type int; expected an agent.*agents in fine: root"),
    "async factory": ("run fine:later hi", "is an async function"),
    "missing package": (
        "run missing_package:root hi",
        r"No module named 'package_that_is_not_installed' \(.*missing_package.py, line 2\); "
        "install",
    ),
    "misspelled import": (
        "run wrong_name.py:root hi",
        r"'Agentt' from 'acc'.*wrong_name.py, line 1",
    ),
    "misspelled option": (
        "run wrong_option:root hi",
        r"use instruction=.*wrong_option.py, line 4",
    ),
    "wrong store": ("run wrong_runner:root hi", r"got int \(.*wrong_runner.py, line 3"),
    "error inside a library": ("run wrong_json:root hi", r"JSONDecodeError.*wrong_json.py, line 2"),
    "error": ("run division:root hi", r"ZeroDivisionError.*division.py, line 2"),
    "syntax": ("run syntax:root hi", r"SyntaxError.*syntax.py, line 2"),
    "exit": ("run exits:root hi", r"exits.py, line 2.*if __name__"),
    "class without its name": (
        "run subclass:Own hi",
        r"Own cannot be built: an agent needs a name: name=\"helper\"\s*$",
    ),
    "path of a module": ("run ./shop/agents:root hi", "is a path; write .* shop.agents:root"),
    "folder": ("run shop/:root hi", "is a path; write .* shop:root"),
    "text without quotes": ("run fine:root hi there", r'Unexpected argument: there\..*"... there"'),
    "model of a command": ("run fine:root hi --model x", r"--model; .* Agent\(model="),
    "version": ("version", "use acc --version"),
    "console in a missing folder": (
        "console fine:root --store /missing/x.db --port 0",
        "/missing does not exist; create it first",
    ),
    "no message": ("run fine:root", 'acc run MODULE:AGENT "text"'),
    "unknown option": ("run fine:root hi --sesion s1", "--session"),
    "URL as store": (
        "run fine:root hi --store mysql://user:s3cret@db/x",
        "'mysql' is not supported",
    ),
    "folder that does not exist": ("run fine:root hi --store /missing/x.db", "create it first"),
    "invalid JSON": ("call http://127.0.0.1:1 --data {amount:5}", "--data.*JSON"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("first")
    for name, text in FILES.items():
        (path / name).write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("mistake", COMMANDS)
def test_error_of_the_command_names_the_problem_and_the_fix(folder: Path, mistake: str) -> None:

    arguments, expected = COMMANDS[mistake]
    done = run_command(*arguments.split(), cwd=folder, env={**os.environ, "COLUMNS": "300"})
    assert done.returncode in (1, 2), done.stdout
    assert "Traceback" not in done.stderr
    assert "s3cret" not in done.stderr
    assert re.search(expected, done.stderr + done.stdout, re.S), done.stderr + done.stdout


def test_misspelled_variable_is_reported(folder: Path) -> None:
    env = {**os.environ, "ACC_COMPRESOR_MODEL": "x", "ACC_MINE": "y", "ACC_TOKEN_SHOP": "z"}
    done = run_command("run", "fine:root", "hi", cwd=folder, env=env)
    assert (done.returncode, done.stderr.count("warning")) == (0, 1)
    assert "ACC_COMPRESOR_MODEL; did you mean ACC_COMPRESSOR_MODEL?" in done.stderr
