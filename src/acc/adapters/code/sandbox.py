"""Execution of Python code in a process without network, secrets and other files."""

import asyncio
import json
import os
import shutil
import signal
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from acc.adapters.code import sandbox_process
from acc.domain.call_options import check_call
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.code import CodeEnd, CodeResult

_POLL_SECONDS = 0.05
_MAX_FILES = 256
#: Folders inside each other that `rmtree` deletes at once, and attempts for deeper ones.
_MAX_DEPTH = 200
_MAX_MOVES = 2_000
_CHUNK_BYTES = 65_536
#: What the interpreter itself reads, besides its standard library.
_SYSTEM_FILES = (
    "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/share/zoneinfo", "/etc/localtime",
    "/etc/ld.so.cache", "/dev/null", "/dev/zero", "/dev/random", "/dev/urandom",
)  # fmt: skip


class SandboxedCodeExecutor:
    """Executes code of a model in a process of its own: `Agent(code_executor=...)`.

    The process has an empty environment and a temporary working directory. It cannot open other
    files than those of the standard library, use the network, or start processes. `timeout` is
    wall time in seconds. `cpu_seconds`, `memory_bytes`, `output_bytes` (each of stdout and stderr)
    and `file_bytes` (all files together) limit what it uses. A violated limit ends the process.

    It needs Linux 6.2 or newer; elsewhere the constructor raises InvalidInput.
    """

    if not TYPE_CHECKING:

        def __new__(cls, *arguments: object, **options: object) -> "SandboxedCodeExecutor":
            """Raise InvalidInput for options that the class does not have."""
            check_call(cls, arguments, options)
            return super().__new__(cls)

    def __init__(
        self,
        *,
        timeout: float = 10.0,
        cpu_seconds: int = 5,
        memory_bytes: int = 512 * 1024 * 1024,
        output_bytes: int = 64 * 1024,
        file_bytes: int = 16 * 1024 * 1024,
    ) -> None:
        if missing := sandbox_process.missing_feature():
            raise InvalidInput(
                f"SandboxedCodeExecutor needs {missing}; pass code_executor= an object with "
                "`async execute(code, *, files)` that isolates code in another way, such as in a "
                "container"
            )
        given = {
            "timeout": timeout,
            "cpu_seconds": cpu_seconds,
            "memory_bytes": memory_bytes,
            "output_bytes": output_bytes,
            "file_bytes": file_bytes,
        }
        for name, value in given.items():
            kinds = int | float if name == "timeout" else int
            if not isinstance(value, kinds) or isinstance(value, bool) or not value > 0:
                raise InvalidInput(
                    f"SandboxedCodeExecutor.{name} must be a number greater than 0, got {value!r}"
                )
        self._timeout = timeout
        self._output_bytes = output_bytes
        self._file_bytes = file_bytes
        self._limits = {
            "RLIMIT_CPU": cpu_seconds,
            "RLIMIT_AS": memory_bytes,
            "RLIMIT_FSIZE": file_bytes,
            "RLIMIT_NOFILE": 64,
            "RLIMIT_CORE": 0,
        }

    async def execute(self, code: str, *, files: Mapping[str, bytes]) -> CodeResult:
        """Return the result of code; when canceled, its process is killed."""
        work = Path(tempfile.mkdtemp(prefix="acc-code-"))
        try:
            _write_files(work, files)
            return await self._execute(code, work, files)
        finally:
            _remove(work)

    async def _execute(self, code: str, work: Path, given: Mapping[str, bytes]) -> CodeResult:
        paths = sysconfig.get_paths(vars={"base": sys.base_prefix, "platbase": sys.base_prefix})
        options = {
            "limits": self._limits,
            "readable": [*_SYSTEM_FILES, paths["stdlib"], paths["platstdlib"]],
            "work": str(work),
            "parent": os.getpid(),
        }
        process = await asyncio.create_subprocess_exec(
            getattr(sys, "_base_executable", sys.executable),
            "-I", "-S", "-B", "-X", "utf8", sandbox_process.__file__, json.dumps(options),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=work,
            env={"HOME": str(work), "LANG": "C.UTF-8", "TMPDIR": str(work)},
            start_new_session=True,
        )  # fmt: skip
        ended = _Ended()
        outputs = (bytearray(), bytearray())
        try:
            async with asyncio.timeout(self._timeout), asyncio.TaskGroup() as tasks:
                for stream, output in zip((process.stdout, process.stderr), outputs, strict=True):
                    if stream is not None:
                        tasks.create_task(self._read(stream, output, process, ended))
                watcher = tasks.create_task(self._watch_files(work, process, ended))
                await _send(process, code.encode(errors="replace"))
                await process.wait()
                watcher.cancel()
        except TimeoutError:
            ended.reason = CodeEnd.TIME_LIMIT
        finally:
            _kill(process)
            await asyncio.shield(process.wait())
        status = process.returncode
        if status == -signal.SIGXCPU:
            ended.reason = CodeEnd.CPU_LIMIT
        reason = ended.reason or (CodeEnd.KILLED if status is None or status < 0 else None)
        stdout, stderr = (
            bytes(out[: self._output_bytes]).decode(errors="replace") for out in outputs
        )
        found = {} if reason is CodeEnd.FILE_LIMIT else _read_files(work, given, self._file_bytes)
        return CodeResult(
            ended=reason or CodeEnd.EXITED,
            exit_status=status if reason is None else None,
            stdout=stdout,
            stderr=stderr,
            files=found,
        )

    async def _read(
        self,
        stream: asyncio.StreamReader,
        output: bytearray,
        process: asyncio.subprocess.Process,
        ended: "_Ended",
    ) -> None:
        while chunk := await stream.read(_CHUNK_BYTES):
            output += chunk
            if len(output) > self._output_bytes:
                ended.reason = ended.reason or CodeEnd.OUTPUT_LIMIT
                _kill(process)
                return

    async def _watch_files(
        self, work: Path, process: asyncio.subprocess.Process, ended: "_Ended"
    ) -> None:
        """Kill the process if its files together are too large: the kernel limits each one."""
        while process.returncode is None:
            await asyncio.sleep(_POLL_SECONDS)
            sizes = [size for _, size in _files(work)]
            if sum(sizes) > self._file_bytes or len(sizes) > _MAX_FILES:
                ended.reason = ended.reason or CodeEnd.FILE_LIMIT
                _kill(process)


class _Ended:
    """Which limit ended a process, if any."""

    reason: CodeEnd | None = None


def _kill(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


async def _send(process: asyncio.subprocess.Process, source: bytes) -> None:
    stdin = process.stdin
    if stdin is not None:
        with suppress(BrokenPipeError, ConnectionResetError):
            stdin.write(source)
            await stdin.drain()
        stdin.close()


def _remove(folder: Path) -> None:
    """Delete a folder, however deep the code nested it."""
    # Moving the lower folders up keeps the recursion of `rmtree` small.
    for _ in range(_MAX_MOVES):
        try:
            shutil.rmtree(folder, ignore_errors=True)
        except RecursionError:
            if not _move_up(folder):
                return
            continue
        return


def _move_up(folder: Path) -> bool:
    """Move a deeply nested folder to the top; return False if there is none."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for _ in range(_MAX_DEPTH):
            names = [e.name for e in os.scandir(descriptor) if e.is_dir(follow_symlinks=False)]
            if not names:
                return False
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
            lower = os.open(names[0], flags, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = lower
        names = [e.name for e in os.scandir(descriptor) if e.is_dir(follow_symlinks=False)]
        if not names:
            return False
        os.rename(names[0], folder / f"moved-{os.urandom(8).hex()}", src_dir_fd=descriptor)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _write_files(work: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or not path.parts:
            raise InvalidInput(f"{name!r} is not the name of a file in the working directory")
        target = work / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def _files(work: Path) -> Iterator[tuple[Path, int]]:
    """Yield regular files below a directory and their sizes; links are not followed.

    Folders that are nested deeper than paths can be are not read.
    """
    folders = [work]
    while folders:
        entries: list[os.DirEntry[str]] = []
        with suppress(OSError), os.scandir(folders.pop()) as found:
            entries = list(found)
        for entry in entries:
            with suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    folders.append(Path(entry.path))
                elif entry.is_file(follow_symlinks=False):
                    # Sparse files occupy less than their length, others up to a block more.
                    status = entry.stat(follow_symlinks=False)
                    yield Path(entry.path), min(status.st_size, status.st_blocks * 512)


def _read_files(work: Path, given: Mapping[str, bytes], limit: int) -> dict[str, bytes]:
    """Return the files that are new or changed."""
    found: dict[str, bytes] = {}
    total = 0
    for path, _ in sorted(_files(work)):
        name = path.relative_to(work).as_posix()
        size = path.stat().st_size
        if total + size > limit:  # a sparse file may be larger than what it uses on the disk
            continue
        content = path.read_bytes()
        if given.get(name) != content:
            found[name] = content
            total += size
    return found
