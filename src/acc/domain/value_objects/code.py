"""The result of executed code."""

from collections.abc import Mapping
from types import MappingProxyType

from acc.domain.value_objects.base import ExplainedEnum, ExplainedMeta, Value


class CodeEnd(ExplainedEnum):
    """How the execution of code ended."""

    EXITED = "exited"
    TIME_LIMIT = "time_limit"
    CPU_LIMIT = "cpu_limit"
    OUTPUT_LIMIT = "output_limit"
    FILE_LIMIT = "file_limit"
    KILLED = "killed"


class CodeResult(Value, frozen=True, kw_only=True, metaclass=ExplainedMeta):
    """Output, exit status and new files of executed code.

    `exit_status` is None if the process was killed. `stdout` and `stderr` are cut at the output
    limit.
    """

    ended: CodeEnd
    exit_status: int | None = None
    stdout: str = ""
    stderr: str = ""
    files: Mapping[str, bytes] = MappingProxyType({})
