"""Download of a file by its URL through the guarded HTTP client."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from urllib.parse import unquote, urlsplit

import httpx2

from acc.adapters.http.client import NetworkOptions, guarded_client
from acc.domain.errors import AccError, RemoteFailed
from acc.domain.value_objects.content import Part
from acc.domain.value_objects.endpoint import DownloadLimits, origin_of

_MAX_REDIRECTS = 3
_DEFAULT_TYPE = "application/octet-stream"
_MAX_NAME_LENGTH = 256


async def fetch_file(
    url: str,
    limits: DownloadLimits,
    *,
    allow: Sequence[str] = (),
    network: NetworkOptions | None = None,
) -> Part:
    """Return the file at a URL as raw bytes with its media type and name.

    Raise AddressRefused if the URL, or a redirect, leads to a refused address; RemoteFailed if the
    file does not exist or exceeds the limits. No cookies or credentials are sent.
    """
    client = guarded_client(
        allow=allow,
        timeout=limits.timeout,
        max_bytes=limits.max_bytes,
        redirects=_MAX_REDIRECTS,
        network=network,
    )
    try:
        async with (
            client,
            client.stream("GET", url, headers={"Accept": ", ".join(limits.types)}) as response,
        ):
            media_type = _check_head(response, limits)
            content = await response.aread()
            return Part(raw=content, media_type=media_type, filename=_file_name(str(response.url)))
    except AccError:
        raise
    except httpx2.TooManyRedirects:
        raise _failed(url, f"redirected more than {_MAX_REDIRECTS} times", "redirects") from None
    except httpx2.TimeoutException:
        problem = f"did not send the file within {limits.timeout:g} seconds"
        raise _failed(url, problem, "timed_out", retryable=True) from None
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        problem = f"cannot be reached: {type(error).__name__}"
        raise _failed(url, problem, "unreachable", retryable=True) from None


def _check_head(response: httpx2.Response, limits: DownloadLimits) -> str:
    """Return the media type, or raise RemoteFailed before the body is read."""
    url, status = str(response.url), response.status_code
    if status != httpx2.codes.OK:
        raise _failed(url, f"answered with status {status}", str(status))
    header = response.headers.get("content-type", "").strip()
    media_type = header.partition(";")[0].strip().lower() or _DEFAULT_TYPE
    if not any(fnmatchcase(media_type, pattern) for pattern in limits.types):
        expected = " or ".join(limits.types)
        problem = f"sent a file of type {media_type[:100]!r}; expected {expected}"
        raise _failed(url, problem, "content_type")
    return header[:_MAX_NAME_LENGTH] or _DEFAULT_TYPE


def _file_name(url: str) -> str:
    name = unquote(urlsplit(url).path.rpartition("/")[2], errors="replace")
    return "".join(char for char in name if char.isprintable())[:_MAX_NAME_LENGTH]


def _failed(url: str, problem: str, code: str, *, retryable: bool = False) -> RemoteFailed:
    # Only the origin: path and query of a download URL can be a secret.
    return RemoteFailed(f"{origin_of(url)} {problem}", remote_code=code, retryable=retryable)
