"""What remote agents made, as files of ours."""

import mimetypes
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from acc.domain.errors import StorageFailed
from acc.domain.value_objects.event import Part
from acc.domain.value_objects.task import TaskArtifact

#: Letters of any script, digits, and little else: the name comes from somewhere else.
_NOT_IN_NAMES = re.compile(r"[^\w.\-]+")
_MOST_NAME = 100


class ArtifactFolder:
    """A folder that artifacts are saved to; what is there already stays."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def save(self, artifacts: Iterable[TaskArtifact]) -> list[Path]:
        """Save what artifacts hold and return the files."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            return [
                self._write(name, content)
                for made in artifacts
                for name, content in _contents(made)
            ]
        except OSError as error:
            raise StorageFailed(f"cannot write to {self._folder}: {error.strerror}") from error

    def _write(self, name: str, content: bytes) -> Path:
        stem, dot, ending = name.rpartition(".")
        stem, ending = (stem, f".{ending}") if dot and stem else (name, "")
        number = 1
        while True:
            path = self._folder / (name if number == 1 else f"{stem}-{number}{ending}")
            try:
                with path.open("xb") as file:
                    file.write(content)
            except FileExistsError:
                number += 1
                continue
            return path


def _contents(made: TaskArtifact) -> Iterator[tuple[str, bytes]]:
    base = made.name or made.artifact_id
    for part in made.parts:
        if part.raw is not None:
            yield _name(part.filename or base, part.media_type), part.raw
        elif part.text is not None:
            yield _name(part.filename or base, part.media_type or "text/plain"), part.text.encode()
        elif part.url is None:
            content = msgspec.json.format(msgspec.json.encode(part.data), indent=2)
            yield _name(part.filename or base, "application/json"), content


def _name(name: str, media_type: str) -> str:
    """Return a name for a file that cannot lead out of its folder."""
    last = re.split(r"[/\\]", name)[-1]
    plain = _NOT_IN_NAMES.sub("_", last).strip("._")[:_MOST_NAME] or "artifact"
    if "." in plain:
        return plain
    return plain + (mimetypes.guess_extension(media_type.partition(";")[0].strip()) or "")


def described(made: TaskArtifact) -> str:
    """Return an artifact in a few words."""
    name = made.name or made.artifact_id
    held = [
        f"{part.filename}, {_described(part)}"
        if part.filename not in ("", name)
        else _described(part)
        for part in made.parts
    ]
    return f"artifact {name}: {'; '.join(held) or 'nothing'}"


def _described(part: Part) -> str:
    if part.raw is not None:
        return f"{part.media_type or 'file'}, {len(part.raw):,} bytes"
    if part.url is not None:
        return part.url
    if part.text is not None:
        return f"{part.media_type or 'text'}, {len(part.text):,} characters"
    return "data"
