"""Consoles for results and errors, shared by all commands."""

import re
import sys

from rich.console import Console

from acc.bootstrap.agents import log_warnings
from acc.domain.errors import InvalidInput

#: Width of output that is not a terminal, so that tables are not squeezed.
_FILE_WIDTH = 160
_SIZE_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
#: C0 control characters, except tab and line feed, are replaced by their Unicode pictures.
_VISIBLE_CONTROLS = {code: 0x2400 + code for code in range(32) if chr(code) not in "\t\n"}
#: Other control characters and those that reorder text have no picture.
_VISIBLE_CONTROLS |= dict.fromkeys(
    [*range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A)], 0xFFFD
)


def configure_logging() -> None:
    """Print warnings and errors of servers to standard error."""
    log_warnings(sys.stderr)


def console() -> Console:
    """Return the console for results; lines are wrapped only on a terminal."""
    is_terminal = sys.stdout.isatty()
    return Console(
        highlight=False,
        emoji=False,
        soft_wrap=not is_terminal,
        width=None if is_terminal else _FILE_WIDTH,
    )


def error_console() -> Console:
    """Return the console for progress and errors."""
    return Console(stderr=True, highlight=False, emoji=False, soft_wrap=not sys.stderr.isatty())


def show_controls(text: str) -> str:
    """Return text with terminal control characters replaced by visible ones."""
    return text.translate(_VISIBLE_CONTROLS)


def print_error(text: str) -> None:
    """Print an error message, which may contain untrusted text."""
    error_console().print(show_controls(text), markup=False)


def read_stdin() -> str:
    """Return the text on standard input; InvalidInput if it is not UTF-8."""
    try:
        text = sys.stdin.read()
        text.encode()  # bytes that are not UTF-8 can be unpaired surrogates
    except UnicodeError:
        raise InvalidInput("the text on standard input is not UTF-8") from None
    return text


def print_json(data: bytes) -> None:
    """Write JSON without formatting."""
    sys.stdout.write(data.decode())
    sys.stdout.write("\n")


def count_noun(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless the number is 1."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def parse_size(text: str, option: str) -> int:
    """Return the bytes of the size that an option has, such as 500K or 8M."""
    match = re.fullmatch(r"(\d{1,12}) ?([kmg]?)(?:i?b)?", text.strip().lower())
    if match is None or not int(match[1]):
        raise InvalidInput(f"{option} must be a size such as 500K or 8M, got {text!r}")
    return int(match[1]) * _SIZE_UNITS[match[2]]
