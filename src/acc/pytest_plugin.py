"""Provide fixtures for tests of agents as a pytest plugin.

`scripted_model` creates models that answer from a list. `agent_runner` creates runners whose
sessions are in memory. `recorded_model` creates models that answer as recorded; the option
`--acc-record` calls the real model and records its answers. Modules of acc are imported on use,
because pytest also loads the plugin for tests that do not need it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from acc.application.agents.base import BaseAgent
    from acc.bootstrap.agents import Runner
    from acc.domain.value_objects.run import RunConfig
    from acc.ports.outbound.model_ports import LanguageModelPort
    from acc.testing import ScriptedModel
    from acc.testing.trajectories import RecordedModel

_RECORD_OPTION = "--acc-record"
_FOLDER = "recordings"
#: File systems accept names of 255 bytes; a character has up to three.
_MAX_NAME_LENGTH = 75


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that records model calls."""
    parser.getgroup("acc").addoption(
        _RECORD_OPTION,
        action="store_true",
        help="call the models of `recorded_model` and replace the recorded answers",
    )


@pytest.fixture
def scripted_model() -> Callable[..., ScriptedModel]:
    """Return the class of models that answer from a list: `scripted_model("first", "second")`."""
    from acc.testing import ScriptedModel

    return ScriptedModel


class RunnerFactory:
    """Creates runners whose sessions are in memory."""

    def __call__(
        self, agent: BaseAgent[Any, Any], *, config: RunConfig | None = None, deps: Any = None
    ) -> Runner[Any, Any]:
        """Return a runner of an agent; call `run_sync`, or `await run`."""
        from acc.bootstrap.agents import Runner

        return Runner(agent, config=config, deps=deps)


@pytest.fixture
def agent_runner() -> RunnerFactory:
    """Return a factory of runners: `agent_runner(agent).run_sync("hello")`."""
    return RunnerFactory()


class RecordedModelFactory:
    """Creates the recorded models of one test."""

    def __init__(self, folder: Path, test: str, *, records: bool) -> None:
        self._folder = folder
        self._test = test
        self._records = records
        self._started: set[Path] = set()

    def __call__(self, model: LanguageModelPort | str, *, name: str = "") -> RecordedModel:
        """Return a model that answers as `model` did when the test was recorded.

        The file is `recordings/TEST.jsonl` beside the test, or `recordings/NAME.jsonl`. A model
        name such as "openai:gpt-5.2" is resolved only to record, so that no key is needed later.
        """
        from acc.domain.errors import InvalidInput
        from acc.testing.trajectories import RecordedModel

        path = self._folder / f"{_file_name(name or self._test)}.jsonl"
        if not self._records:
            if not path.exists():
                raise InvalidInput(
                    f"{path} does not exist; record the answers of the model with "
                    f"`pytest {_RECORD_OPTION}`"
                )
            return RecordedModel(path)
        if path not in self._started:
            self._started.add(path)
            path.unlink(missing_ok=True)
        if isinstance(model, str):
            from acc.bootstrap.models import make_model

            model = make_model(model)
        return RecordedModel(path, model)


@pytest.fixture
def recorded_model(request: pytest.FixtureRequest) -> RecordedModelFactory:
    """Return a factory of recorded models: `recorded_model("openai:gpt-5.2")`."""
    return RecordedModelFactory(
        request.path.parent / _FOLDER,
        f"{request.path.stem}-{request.node.nodeid.partition('::')[2]}",
        records=bool(request.config.getoption(_RECORD_OPTION)),
    )


def _file_name(text: str) -> str:
    """Return a file name without characters that file systems reject, unique for each text."""
    name = re.sub(r"[^\w.-]+", "_", text)[:_MAX_NAME_LENGTH]
    return name if name == text else f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
