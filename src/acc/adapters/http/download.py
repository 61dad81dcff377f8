"""Fetching a file that somebody named by its URL, through the guarded HTTP client."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from urllib.parse import unquote, urlsplit

import httpx

from acc.adapters.http.client import NetworkOptions, guarded_client
from acc.domain.errors import AccError, RemoteFailed
from acc.domain.value_objects.content import Part
from acc.domain.value_objects.endpoint import DownloadLimits, origin_of

_REDIRECTS = 3
_UNKNOWN = "application/octet-stream"
_MOST_NAME = 256


async def fetch_file(
    url: str,
    terms: DownloadLimits,
    *,
    allow: Sequence[str] = (),
    wiring: NetworkOptions | None = None,
) -> Part:
    """Return a file as raw bytes with its media type and name.

    AddressRefused if its address, or one that it redirects to, must not be called from here;
    RemoteFailed if it is not there, too large, too slow, or of a type that was not asked for. No
    cookies and no credentials are sent.
    """
    client = guarded_client(
        allow=allow,
        timeout=terms.timeout,
        max_bytes=terms.max_bytes,
        redirects=_REDIRECTS,
        wiring=wiring,
    )
    try:
        async with (
            client,
            client.stream("GET", url, headers={"Accept": ", ".join(terms.types)}) as answer,
        ):
            kind = _checked_type(answer, terms)
            content = await answer.aread()
            return Part(raw=content, media_type=kind, filename=_name_in(str(answer.url)))
    except AccError:
        raise
    except httpx.TooManyRedirects:
        raise _failed(url, "redirects too often", "redirects") from None
    except httpx.TimeoutException:
        said = f"did not send the file within {terms.timeout:g} seconds"
        raise _failed(url, said, "timed_out", retryable=True) from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        said = f"cannot be asked for the file: {type(error).__name__}"
        raise _failed(url, said, "unreachable", retryable=True) from None


def _checked_type(answer: httpx.Response, terms: DownloadLimits) -> str:
    """Return the type of a file, before any of it is read."""
    place, status = str(answer.url), answer.status_code
    if status != httpx.codes.OK:
        raise _failed(place, f"answered {status} when asked for the file", str(status))
    told = answer.headers.get("content-type", "").strip()
    kind = told.partition(";")[0].strip().lower() or _UNKNOWN
    if not any(fnmatchcase(kind, wanted) for wanted in terms.types):
        wanted = " or ".join(terms.types)
        raise _failed(
            place, f"sent a file of type {kind[:100]!r}, and not {wanted}", "content_type"
        )
    return told[:_MOST_NAME] or _UNKNOWN


def _name_in(url: str) -> str:
    last = unquote(urlsplit(url).path.rpartition("/")[2], errors="replace")
    return "".join(sign for sign in last if sign.isprintable())[:_MOST_NAME]


def _failed(url: str, said: str, code: str, *, retryable: bool = False) -> RemoteFailed:
    # The path and the query of such a URL may be all that keeps the file from others.
    return RemoteFailed(f"{origin_of(url)} {said}", remote_code=code, retryable=retryable)
