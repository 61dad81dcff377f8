"""Interface to the execution of code that a model wrote."""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from acc.domain.value_objects.code import CodeResult


@runtime_checkable
class CodeExecutorPort(Protocol):
    """Executes Python code."""

    async def execute(self, code: str, *, files: Mapping[str, bytes]) -> CodeResult:
        """Return the result of code that finds `files` in its working directory.

        When the call is canceled, nothing of the code continues to run.
        """
        ...
