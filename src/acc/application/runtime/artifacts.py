"""Files by reference: parts that hold a URL, made into parts that hold the file."""

from acc.domain.errors import AddressRefused, InvalidInput, RemoteFailed
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.content import Part
from acc.domain.value_objects.endpoint import DownloadLimits, check_remote_url
from acc.ports.outbound.remote_ports import FetchFile


async def fetched(fetch: FetchFile | None, source: Part | str, terms: DownloadLimits) -> Part:
    """Return the file that a part or a URL refers to; name and notes of the part are kept."""
    part = Part(url=source) if isinstance(source, str) else source
    if part.url is None:
        return part
    if fetch is None:
        raise RemoteFailed("these services cannot fetch files")
    try:
        check_remote_url(part.url)
    except InvalidInput:
        raise AddressRefused(
            "the file's address is no http or https URL without credentials"
        ) from None
    try:
        found = await fetch(part.url, terms)
    except AddressRefused as error:
        told = error.naming("--allow, or ACC_ALLOW in the environment")
        raise AddressRefused(told, detail=error.detail) from None
    return replace(
        found, filename=part.filename or found.filename, metadata=part.metadata or found.metadata
    )
