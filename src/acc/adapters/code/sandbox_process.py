"""The process that executes code: it locks itself in and then executes its standard input.

This file is executed as a script by an interpreter of its own, with an empty environment. It uses
the standard library only and does not import acc. Landlock restricts files, a seccomp filter
restricts system calls, and resource limits restrict memory, CPU time and the size of files. None
of them can be undone by the process.
"""

import ctypes
import json
import linecache
import os
import platform
import resource
import struct
import sys
import traceback
from pathlib import Path
from types import CodeType

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long

# Landlock: the numbers of its system calls are the same on all architectures.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_RULE_PATH_BENEATH = 1
_READ_FILE, _READ_DIRECTORY = 1 << 2, 1 << 3
#: Everything that the third version of Landlock can restrict.
_ALL_FILE_ACCESS = (1 << 15) - 1
#: What code may do in its working directory: all but execution and special files.
_WORK_ACCESS = _ALL_FILE_ACCESS & ~(1 << 0 | 1 << 6 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 13)
#: Versions older than this cannot restrict truncation.
MIN_LANDLOCK = 3
_NO_NEW_PRIVILEGES, _SET_SECCOMP, _SECCOMP_FILTER = 38, 22, 2
_PARENT_DEATH_SIGNAL, _SIGKILL = 1, 9
_PATH_ONLY = getattr(os, "O_PATH", 0)

#: Architecture of the audit interface, and the numbers of denied system calls.
_ARCHITECTURES: dict[str, tuple[int, dict[str, int]]] = {
    "x86_64": (
        0xC000003E,
        {
            "socket": 41, "socketpair": 53, "clone": 56, "fork": 57, "vfork": 58, "execve": 59,
            "kill": 62, "shmget": 29, "semget": 64, "msgget": 68, "truncate": 76, "chmod": 90,
            "fchmod": 91, "chown": 92, "fchown": 93, "lchown": 94, "ptrace": 101, "utime": 132,
            "setpriority": 141, "sched_setparam": 142, "sched_setscheduler": 144, "chroot": 161,
            "mount": 165, "umount2": 166, "setxattr": 188, "lsetxattr": 189, "fsetxattr": 190,
            "removexattr": 197, "lremovexattr": 198, "fremovexattr": 199, "tkill": 200,
            "sched_setaffinity": 203, "utimes": 235, "mq_open": 240, "tgkill": 234,
            "add_key": 248, "request_key": 249, "keyctl": 250, "ioprio_set": 251,
            "inotify_init": 253, "fchownat": 260, "futimesat": 261, "fchmodat": 268,
            "unshare": 272, "utimensat": 280, "fanotify_init": 300, "prlimit64": 302,
            "setns": 308, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312,
            "sched_setattr": 314, "seccomp": 317, "memfd_create": 319, "bpf": 321,
            "execveat": 322, "userfaultfd": 323, "rt_sigqueueinfo": 129,
            "rt_tgsigqueueinfo": 297, "perf_event_open": 298, "open_by_handle_at": 304,
        },
    ),
    "aarch64": (
        0xC00000B7,
        {
            "socket": 198, "socketpair": 199, "clone": 220, "execve": 221, "kill": 129,
            "shmget": 194, "semget": 190, "msgget": 186, "truncate": 45, "fchmod": 52,
            "fchmodat": 53, "fchownat": 54, "fchown": 55, "ptrace": 117, "setpriority": 140,
            "sched_setparam": 118, "sched_setscheduler": 119, "chroot": 51, "mount": 40,
            "umount2": 39, "setxattr": 5, "lsetxattr": 6, "fsetxattr": 7, "removexattr": 14,
            "lremovexattr": 15, "fremovexattr": 16, "tkill": 130, "sched_setaffinity": 122,
            "mq_open": 180, "tgkill": 131, "add_key": 217, "request_key": 218, "keyctl": 219,
            "ioprio_set": 30, "unshare": 97, "utimensat": 88, "fanotify_init": 262,
            "prlimit64": 261, "setns": 268, "process_vm_readv": 270, "process_vm_writev": 271,
            "kcmp": 272, "sched_setattr": 274, "seccomp": 277, "memfd_create": 279, "bpf": 280,
            "execveat": 281, "userfaultfd": 282, "rt_sigqueueinfo": 138,
            "rt_tgsigqueueinfo": 240, "perf_event_open": 241, "open_by_handle_at": 265,
        },
    ),
}  # fmt: skip
#: Denied on both architectures, which have the same numbers for newer calls.
_DENIED = {
    "pidfd_send_signal": 424, "io_uring_setup": 425, "io_uring_enter": 426, "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "fsmount": 432, "pidfd_open": 434, "pidfd_getfd": 438,
    "process_madvise": 440, "mount_setattr": 442, "process_mrelease": 448, "fchmodat2": 452,
}  # fmt: skip
_CLONE3 = 435
#: Calls that report success and do nothing, so that `shutil.copy` works: Landlock does not
#: restrict them.
_IGNORED = frozenset(
    {"chmod", "fchmod", "fchmodat", "fchmodat2", "utime", "utimes", "futimesat", "utimensat"}
)
#: Calls that are allowed if their first argument is this process; 0 for `prlimit64`.
_ON_ITSELF = frozenset({"kill", "tgkill"})
_CLONE_THREAD = 0x10000
_X32_CALLS = 0x40000000
_EPERM, _ENOSYS = 1, 38
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_LOAD, _EQUAL, _GREATER_OR_EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_CALL_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def landlock_version() -> int:
    """Return the version of Landlock that the kernel has, 0 if it has none."""
    return max(0, int(_libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)))


def missing_feature() -> str:
    """Return what this system lacks for a sandbox, or an empty text."""
    if sys.platform != "linux" or platform.machine() not in _ARCHITECTURES:
        return "Linux on x86_64 or aarch64"
    if landlock_version() < MIN_LANDLOCK:
        return f"a kernel with Landlock {MIN_LANDLOCK} (Linux 6.2 or newer)"
    return ""


def _check(result: int, step: str) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), f"the sandbox cannot be set up: {step}")
    return result


def _restrict_files(readable: list[str], work: str) -> None:
    attributes = struct.pack("=Q", _ALL_FILE_ACCESS)
    ruleset = _check(
        _libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0), "ruleset"
    )
    for path in [*readable, work]:
        try:
            opened = os.open(path, _PATH_ONLY | os.O_CLOEXEC)
        except OSError:
            continue  # does not exist on this system
        access = _WORK_ACCESS if path == work else _READ_FILE | _READ_DIRECTORY
        if not Path(path).is_dir():
            access = _READ_FILE
        rule = struct.pack("=Qi", access, opened)
        _check(_libc.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, rule, 0), f"rule for {path}")
        os.close(opened)
    _check(_libc.syscall(_RESTRICT_SELF, ruleset, 0), "files")
    os.close(ruleset)


def _restrict_calls() -> None:
    architecture, calls = _ARCHITECTURES[platform.machine()]
    denied = {**calls, **_DENIED}
    filters = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _CALL_NUMBER),
        (_GREATER_OR_EQUAL, 0, 1, _X32_CALLS),
        (_RETURN, 0, 0, _KILL),
        (_EQUAL, 0, 1, _CLONE3),  # its arguments cannot be read; the C library then uses `clone`
        (_RETURN, 0, 0, _ERRNO | _ENOSYS),
    ]
    for name, number in denied.items():
        if name == "clone" or name in _ON_ITSELF or name == "prlimit64":
            test = (_ANY_BIT, 0, 1, _CLONE_THREAD) if name == "clone" else (
                _EQUAL, 0, 1, 0 if name == "prlimit64" else os.getpid()
            )  # fmt: skip
            filters += [
                (_EQUAL, 0, 4, number),
                (_LOAD, 0, 0, _FIRST_ARGUMENT),
                test,
                (_RETURN, 0, 0, _ALLOW),
                (_RETURN, 0, 0, _ERRNO | _EPERM),
            ]
        else:
            error = 0 if name in _IGNORED else _EPERM
            filters += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERRNO | error)]
    filters.append((_RETURN, 0, 0, _ALLOW))
    instructions = b"".join(struct.pack("=HBBI", *line) for line in filters)
    program = _Program(len(filters), instructions)
    _check(_libc.prctl(_SET_SECCOMP, _SECCOMP_FILTER, ctypes.byref(program), 0, 0), "calls")


def _lock_in(settings: dict[str, int], readable: list[str], work: str, parent: int) -> None:
    _check(_libc.prctl(_PARENT_DEATH_SIGNAL, _SIGKILL, 0, 0, 0), "parent")
    if os.getppid() != parent:
        raise SystemExit("the process that started the code is gone")
    for name, value in settings.items():
        # The signal of the soft CPU limit says which limit it was; the hard one cannot be caught.
        hard = value + 1 if name == "RLIMIT_CPU" else value
        resource.setrlimit(getattr(resource, name), (value, hard))
    _check(_libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "privileges")
    _restrict_files(readable, work)
    _restrict_calls()


def _execute(code: CodeType) -> None:
    try:
        exec(code, {"__name__": "__main__", "__builtins__": __builtins__})  # noqa: S102 - the purpose
    except SystemExit:
        raise
    except BaseException as error:  # noqa: BLE001 - a process boundary
        shown = error.__traceback__ and error.__traceback__.tb_next
        traceback.print_exception(type(error), error, shown)
        sys.exit(1)


def main() -> None:
    """Execute the code from the standard input with the limits from the command line."""
    options = json.loads(sys.argv[1])
    source = sys.stdin.buffer.read().decode()
    linecache.cache["code.py"] = (len(source), None, source.splitlines(keepends=True), "code.py")
    sys.argv = ["code.py"]
    _lock_in(options["limits"], options["readable"], options["work"], options["parent"])
    try:
        code = compile(source, "code.py", "exec")
    except (SyntaxError, ValueError) as error:
        traceback.print_exception(type(error), error, None)
        sys.exit(1)
    _execute(code)


if __name__ == "__main__":
    main()
