"""Read the entries of a log file: JSON, JSON lines, tables and Parquet, also compressed."""

import csv
import gzip
import io
import zlib
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from acc.adapters.evaluation.conversation_files import parse_items
from acc.domain.errors import InvalidInput

Json = Mapping[str, Any]

_GZIP_START = b"\x1f\x8b"
_PARQUET_START = b"PAR1"
_MAX_CELL_LENGTH = 2**31 - 1
#: Keys of the lists in API responses, downloads and threads.
_LIST_KEYS = ("data", "runs", "traces", "observations", "examples")


class Entries(NamedTuple):
    """The entries of a file; the rows of a table have its columns as keys."""

    items: list[Json]
    is_table: bool


def read_entries(path: Path) -> Entries:
    """Return the entries of a file.

    Raises InvalidInput if the file cannot be read, ValueError if its content is invalid.
    """
    suffix = path.suffix.casefold()
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror or error}") from error
    if content.startswith(_PARQUET_START):
        return Entries(_parse_parquet(path, content), is_table=True)
    if content.startswith(_GZIP_START):
        suffix = Path(path.stem).suffix.casefold()
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise InvalidInput(f"{path} cannot be decompressed: {error}") from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is not UTF-8: {error}; convert it first") from error
    if suffix in (".csv", ".tsv"):
        return Entries(_parse_table(text, "\t" if suffix == ".tsv" else ","), is_table=True)
    return Entries([one for item in parse_items(text) for one in _unpack(item)], is_table=False)


def _parse_parquet(path: Path, content: bytes) -> list[Json]:
    try:
        pyarrow: Any = import_module("pyarrow")
        parquet: Any = import_module("pyarrow.parquet")
    except ModuleNotFoundError as error:
        raise InvalidInput(
            f"{path} is a Parquet file, and the package pyarrow is not installed; install it: "
            "pip install 'acc-agents[parquet]'"
        ) from error
    try:
        rows: list[Json] = parquet.read_table(io.BytesIO(content)).to_pylist()
    except pyarrow.ArrowException as error:
        raise InvalidInput(f"{path} is not a Parquet file that can be read: {error}") from error
    if not rows:
        raise ValueError("it has no rows")
    return rows


def _parse_table(content: str, delimiter: str) -> list[Json]:
    csv.field_size_limit(_MAX_CELL_LENGTH)
    rows = csv.DictReader(io.StringIO(content, newline=""), delimiter=delimiter, restval="")
    items = [{_column(str(name).strip()): value for name, value in row.items()} for row in rows]
    if not items:
        raise ValueError("it has no rows below its header")
    return list(items)


def _column(name: str) -> str:
    """Return the name of a column as it is looked for: `Role` is `role`, `sessionId` stays."""
    return name.casefold() if name.istitle() or name.isupper() else name


def _unpack(item: Json) -> Iterator[Json]:
    """Yield the entries of an object that lists them, or the object itself.

    Entries of a thread get its name. A trace without an input is replaced by its observations.
    """
    inside = next((item[key] for key in _LIST_KEYS if isinstance(item.get(key), list)), None)
    if not inside or item.get("input") or item.keys() & {"inputs", "messages"}:
        yield item
        return
    names = {
        name: item[name] for name in ("thread_id", "sessionId", "session_id") if item.get(name)
    }
    for one in inside:
        if not isinstance(one, Mapping):
            raise TypeError(f"expected an object, got {type(one).__name__}")
        given = {name: value for name, value in one.items() if name not in names or value}
        yield from _unpack({**names, **given})
