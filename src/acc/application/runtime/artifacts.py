"""Files of a session as agents handle them, and the download of files by URL."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from acc.application.runtime.inputs import PARTS_DECODER, check_storable
from acc.application.runtime.state import matches_patterns
from acc.domain.errors import AddressRefused, InvalidInput, RemoteFailed, StateNotGranted
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.content import Part
from acc.domain.value_objects.endpoint import DownloadLimits, check_remote_url
from acc.domain.value_objects.event import EventKind
from acc.domain.value_objects.session import StoredArtifact
from acc.ports.outbound.remote_ports import FetchFile

if TYPE_CHECKING:
    from acc.application.runtime.context import RunContext

_MAX_NAME_LENGTH = 256
_MAX_DESCRIPTION_LENGTH = 4000


class Artifacts:
    """The versioned files of a session, limited to the names that an agent is granted."""

    __slots__ = ("_context",)

    def __init__(self, context: "RunContext") -> None:
        self._context = context

    async def save(
        self,
        name: str,
        content: str | bytes,
        *,
        media_type: str = "text/plain; charset=utf-8",
        description: str = "",
    ) -> int:
        """Store a new version, record that, and return its number.

        A2A clients see the `description` beside the file.
        """
        self._check_name(name)
        described = _described(name, description)
        data = _to_bytes(name, content)
        if not isinstance(media_type, str) or not media_type.isprintable():
            raise InvalidInput(f"artifact {name!r}: invalid media type {media_type!r}")
        context = self._context
        recorded = context.next_recorded()
        if recorded is not None and recorded.kind is EventKind.ARTIFACT:
            await context.emit(EventKind.ARTIFACT)
            return int(recorded.detail["version"])
        key = context.run.request.key
        version = await context.services.artifacts.save(key, name, data, media_type)
        detail = {"name": name, "version": version, "media_type": media_type, "size": len(data)}
        await context.emit(EventKind.ARTIFACT, detail=detail | described)
        return version

    async def publish(
        self,
        name: str,
        *parts: Part | str,
        append: bool = False,
        last: bool = True,
        description: str = "",
    ) -> None:
        """Show a result, or a chunk of one, to the observer of the run.

        The parts are recorded with the run and not stored as a file. A chunk that is not the `last`
        is continued by chunks with the same name and `append=True`. A2A clients see the
        `description` of the first chunk.
        """
        self._check_name(name)
        described = _described(name, description)
        content = tuple(Part(text=part) if isinstance(part, str) else part for part in parts)
        if not content or not all(isinstance(part, Part) for part in content):
            raise InvalidInput(f"artifact {name!r}: expected at least one str or Part")
        check_storable(content, PARTS_DECODER, f"artifact {name!r}")
        detail = {"name": name, "append": append, "last": last}
        await self._context.emit(EventKind.ARTIFACT, parts=content, detail=detail | described)

    async def load(self, name: str, version: int | None = None) -> StoredArtifact | None:
        """Return a version, the newest by default, or None."""
        if not isinstance(name, str) or not isinstance(version, int | None):
            raise InvalidInput(f"expected a name and a version number, got {name!r}, {version!r}")
        if not self._is_granted(name):
            return None
        context = self._context
        return await context.services.artifacts.load(context.run.request.key, name, version)

    async def names(self) -> tuple[str, ...]:
        """Return the names of all files that the agent may load."""
        context = self._context
        names = await context.services.artifacts.names(context.run.request.key)
        return tuple(filter(self._is_granted, names))

    def _check_name(self, name: object) -> None:
        is_text = isinstance(name, str) and bool(name.strip()) and name.isprintable()
        if not is_text or len(str(name)) > _MAX_NAME_LENGTH:
            raise InvalidInput(
                f"invalid artifact name {name!r}: expected 1 to {_MAX_NAME_LENGTH} printable "
                "characters"
            )
        if not self._is_granted(str(name)):
            raise StateNotGranted(f"artifact.{name}", "no grant covers this file")

    def _is_granted(self, name: str) -> bool:
        return all(matches_patterns(patterns, name) for patterns in self._context.artifact_grants)


def _described(name: str, description: object) -> dict[str, str]:
    """Return the description as a field of the event; none if it is empty."""
    if not isinstance(description, str) or len(description) > _MAX_DESCRIPTION_LENGTH:
        raise InvalidInput(
            f"artifact {name!r}: description must be a str of at most "
            f"{_MAX_DESCRIPTION_LENGTH} characters"
        )
    return {"description": description} if description else {}


def _to_bytes(name: str, content: object) -> bytes:
    if isinstance(content, bytes | bytearray | memoryview):
        return bytes(content)
    if not isinstance(content, str):
        raise InvalidInput(
            f"artifact {name!r}: expected str or bytes, got {type(content).__name__}"
        )
    try:
        return content.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(f"artifact {name!r} cannot be stored: {error}") from None


async def download(
    fetch: FetchFile | None,
    source: Part | str,
    *,
    types: Sequence[str],
    max_bytes: int,
    timeout: float,  # noqa: ASYNC109 - a limit of the download
) -> Part:
    """Return the file that a part or URL refers to, with the part's name and metadata."""
    limits = DownloadLimits(types=types, max_bytes=max_bytes, timeout=timeout)
    part = Part(url=source) if isinstance(source, str) else source
    if part.url is None:
        return part
    if fetch is None:
        raise RemoteFailed("these services cannot download files")
    try:
        check_remote_url(part.url)
    except InvalidInput:
        raise AddressRefused(
            "the file's address must be an http or https URL without credentials"
        ) from None
    try:
        file = await fetch(part.url, limits)
    except AddressRefused as error:
        message = error.naming("--allow, or ACC_ALLOW in the environment")
        raise AddressRefused(message, detail=error.detail) from None
    return replace(
        file, filename=part.filename or file.filename, metadata=part.metadata or file.metadata
    )
