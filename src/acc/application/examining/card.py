"""Reading a card of either generation, whatever is wrong with it."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from acc.application.examining.dialect import JSONRPC, OLD, Interface


class Card:
    """The card of a server, as the JSON that it is."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document

    @property
    def is_one(self) -> bool:
        """Tell whether the card is one of generation 1.0, perhaps among others."""
        return isinstance(self.document.get("supportedInterfaces"), list)

    @property
    def is_old(self) -> bool:
        """Tell whether the card can be read by clients of generation 0.3."""
        return isinstance(self.document.get("url"), str)

    @property
    def interfaces(self) -> Sequence[Interface]:
        """Return the interfaces that are declared well enough to be used."""
        found: dict[tuple[str, str, str], Interface] = {}
        for each in (*self._new(), *self._old()):
            found.setdefault((each.url.rstrip("/"), each.binding, each.generation), each)
        return list(found.values())

    def _new(self) -> list[Interface]:
        return [
            Interface(
                url=each["url"],
                binding=_text(each.get("protocolBinding")),
                version=_text(each.get("protocolVersion")),
                tenant=_text(each.get("tenant")),
            )
            for each in objects(self.document.get("supportedInterfaces"))
            if is_url(each.get("url"))
        ]

    def _old(self) -> list[Interface]:
        if not self.is_old:
            return []
        preferred = _text(self.document.get("preferredTransport")) or JSONRPC
        named = [(self.document["url"], preferred)]
        for each in objects(self.document.get("additionalInterfaces")):
            named.append((each.get("url"), _text(each.get("transport"))))
        return [
            Interface(url=url, binding=binding, version=OLD)
            for url, binding in named
            if is_url(url)
        ]

    def can(self, capability: str) -> bool:
        """Tell whether the card declares a capability."""
        capabilities = self.document.get("capabilities")
        return isinstance(capabilities, dict) and capabilities.get(capability) is True

    @property
    def has_extended(self) -> bool:
        """Tell whether the card says that there is an extended one."""
        old = self.document.get("supportsAuthenticatedExtendedCard") is True
        return old or self.can("extendedAgentCard")

    @property
    def schemes(self) -> Mapping[str, str]:
        """Return the declared security schemes by name, each with its kind."""
        declared = self.document.get("securitySchemes")
        if not isinstance(declared, dict):
            return {}
        return {name: _kind(scheme) for name, scheme in declared.items()}

    @property
    def needs_credentials(self) -> bool:
        """Tell whether the card says that callers need credentials."""
        needed = self.document.get("securityRequirements") or self.document.get("security")
        return bool(needed)


_KINDS = {
    "apiKeySecurityScheme": "apiKey",
    "httpAuthSecurityScheme": "http",
    "oauth2SecurityScheme": "oauth2",
    "openIdConnectSecurityScheme": "openIdConnect",
    "mtlsSecurityScheme": "mutualTLS",
}


def _kind(scheme: Any) -> str:
    if not isinstance(scheme, dict):
        return ""
    kind, inner = _text(scheme.get("type")), scheme
    for name, plain in _KINDS.items():
        if isinstance(scheme.get(name), dict):
            kind, inner = plain, scheme[name]
    return f"http {_text(inner.get('scheme')).lower()}" if kind == "http" else kind


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def objects(value: Any) -> list[dict[str, Any]]:
    """Return the objects in a list, and nothing for what is no list."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def is_url(value: Any) -> bool:
    """Tell whether this is an absolute URL of the web."""
    if not isinstance(value, str):
        return False
    try:
        parts = urlsplit(value)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
