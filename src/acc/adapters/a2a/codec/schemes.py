"""Security schemes: as OpenAPI and generation 0.3 write them, and as 1.0 does."""

from collections.abc import Mapping
from typing import Any

#: The name that 1.0 gives to each type, and what becomes of its fields.
_FORMS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "apiKey": (
        "apiKeySecurityScheme",
        {"description": "description", "in": "location", "name": "name"},
    ),
    "http": (
        "httpAuthSecurityScheme",
        {"description": "description", "scheme": "scheme", "bearerFormat": "bearerFormat"},
    ),
    "oauth2": (
        "oauth2SecurityScheme",
        {
            "description": "description",
            "flows": "flows",
            "oauth2MetadataUrl": "oauth2MetadataUrl",
        },
    ),
    "openIdConnect": (
        "openIdConnectSecurityScheme",
        {"description": "description", "openIdConnectUrl": "openIdConnectUrl"},
    ),
    "mutualTLS": ("mtlsSecurityScheme", {"description": "description"}),
}
_FLOWS = ("authorizationCode", "clientCredentials", "deviceCode", "implicit", "password")


def one_form(scheme: Mapping[str, Any]) -> dict[str, Any]:
    """Return a scheme as 1.0 writes it; one of no type that 1.0 knows is empty there."""
    form = _FORMS.get(scheme.get("type", ""))
    if form is None:
        return {}
    name, fields = form
    scheme = single_flow(scheme)
    return {name: {theirs: scheme[ours] for ours, theirs in fields.items() if scheme.get(ours)}}


def merged_form(scheme: Mapping[str, Any]) -> dict[str, Any]:
    """Return a scheme in both forms side by side."""
    return {**single_flow(scheme), **one_form(scheme)}


def single_flow(scheme: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a scheme with one OAuth flow, which is all that 1.0 has room for: the safest."""
    flows = scheme.get("flows")
    if not isinstance(flows, Mapping) or len(flows) < 2:
        return scheme
    chosen = next((name for name in _FLOWS if name in flows), None)
    return {**scheme, "flows": {} if chosen is None else {chosen: flows[chosen]}}


def open_form(scheme: Mapping[str, Any]) -> dict[str, Any]:
    """Return a scheme that was written in either form, or in both, as OpenAPI writes it."""
    for kind, (name, fields) in _FORMS.items():
        held = scheme.get(name)
        if isinstance(held, Mapping) and scheme.get("type") in (None, kind):
            known = {ours: held[theirs] for ours, theirs in fields.items() if theirs in held}
            return {"type": kind, **known}
    names = {name for name, _ in _FORMS.values()}
    return {key: value for key, value in scheme.items() if key not in names}
