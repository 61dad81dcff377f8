"""Checks of what the owner of an agent declares on its card."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from acc.application.a2a.card_builder import declared_scopes
from acc.application.a2a.media_modes import JSON, accepts, input_modes
from acc.application.agents.base import BaseAgent
from acc.application.agents.llm import LlmAgent
from acc.application.contracts.schemas import contract_of_agent
from acc.application.runtime.run import Services
from acc.application.runtime.state import matches_patterns
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.agent_card import (
    CardConfig,
    CardFinding,
    CardSeverity,
    Security,
    Skill,
    card_error,
    card_warning,
)
from acc.domain.value_objects.endpoint import check_remote_url

_MEDIA_TYPE = re.compile(r"[\w.+*-]+/[\w.+*-]+")
#: Types of security schemes that the server can check: bearer tokens, and TLS of a proxy.
_SCHEME_TYPES = ("http", "oauth2", "openIdConnect", "mutualTLS")
_FLOWS = {
    "authorizationCode": ("authorizationUrl", "tokenUrl"),
    "clientCredentials": ("tokenUrl",),
    "deviceCode": ("deviceAuthorizationUrl", "tokenUrl"),
    "implicit": ("authorizationUrl",),
    "password": ("tokenUrl",),
}


def check_card(
    agent: BaseAgent,
    config: CardConfig,
    services: Services,
    *,
    requires_auth: bool | None = None,
    can_push: bool = True,
) -> list[CardFinding]:
    """Return what is wrong with a declared card.

    A finding with an error prevents serving. `requires_auth` of None means that it is not known
    whether callers need a token.
    """
    return [
        *_check_texts(config),
        *_check_modes(agent, config, services),
        *_check_skills(config),
        *_check_security(config, requires_auth),
        *_check_capabilities(config, requires_auth, can_push),
    ]


def require_valid(findings: Sequence[CardFinding]) -> None:
    """Raise InvalidInput with all errors of a card."""
    errors = [
        f"{finding.field}: {finding.text}; {finding.fix}"
        for finding in findings
        if finding.severity is CardSeverity.ERROR
    ]
    if errors:
        raise InvalidInput("the card is invalid: " + ". ".join(errors))


def _check_texts(config: CardConfig) -> Iterator[CardFinding]:
    urls = {
        "url": config.url,
        "documentationUrl": config.documentation_url,
        "iconUrl": config.icon_url,
        "provider.url": "" if config.provider is None else config.provider.url,
    }
    for field, url in urls.items():
        if url:
            try:
                check_remote_url(url)
            except InvalidInput as error:
                yield card_error(field, str(error), "use an absolute URL")


def _check_modes(agent: BaseAgent, config: CardConfig, services: Services) -> Iterator[CardFinding]:
    inputs = [("defaultInputModes", mode) for mode in config.input_modes]
    outputs = [("defaultOutputModes", mode) for mode in config.output_modes]
    for index, skill in enumerate(config.skills):
        inputs += [(f"skills[{index}].inputModes", mode) for mode in skill.input_modes]
        outputs += [(f"skills[{index}].outputModes", mode) for mode in skill.output_modes]
    for field, mode in (*inputs, *outputs):
        if not _MEDIA_TYPE.fullmatch(mode):
            yield card_error(field, f"{mode!r} is not a media type", "use one such as text/plain")
    accepted = _accepted_inputs(agent, services)
    for field, mode in inputs:
        if accepted is not None and not accepts(mode, accepted):
            yield card_error(
                field,
                f"{mode!r} cannot be processed: agent and models accept {', '.join(accepted)}",
                "remove it, or use a model that accepts it",
            )
    for field, mode in outputs:
        if mode == JSON and not _produces_json(agent):
            yield card_error(
                field,
                f"{JSON!r} cannot be produced: the answers of {agent.name!r} are text",
                "set output_type of the agent, or use text/plain",
            )


def _accepted_inputs(agent: BaseAgent, services: Services) -> tuple[str, ...] | None:
    """Return the accepted modes; None if only code of the owner processes messages."""
    has_model = any(isinstance(member, LlmAgent) for member in agent.walk())
    if has_model or agent.input_modes != BaseAgent.input_modes:
        return input_modes(agent, services)
    return None


def _produces_json(agent: BaseAgent) -> bool:
    is_text = isinstance(agent, LlmAgent) and agent.output_schema is None
    return not is_text or _has_contract(agent)


def _has_contract(agent: BaseAgent) -> bool:
    return any(contract_of_agent(member) is not None for member in agent.walk())


def _check_skills(config: CardConfig) -> Iterator[CardFinding]:
    for name, count in Counter(skill.id for skill in config.skills).items():
        if count > 1:
            yield card_error("skills", f"the id {name!r} occurs {count} times", "use unique ids")
    for index, skill in enumerate(config.skills):
        field = f"skills[{index}]"
        for name in ("id", "name", "description"):
            if not getattr(skill, name).strip():
                yield card_error(f"{field}.{name}", "is missing", f"add the string {name!r}")
        yield from _check_requirements(config, skill.security, f"{field}.security")
        yield from _advise(skill, field)
    if config.skills and not any(matches_patterns(config.public, s.id) for s in config.skills):
        yield card_warning(
            "public", "excludes every skill, so that nobody finds them", "list at least one skill"
        )


def _advise(skill: Skill, field: str) -> Iterator[CardFinding]:
    if not skill.tags:
        yield card_warning(
            f"{field}.tags", "is empty", "add keywords, by which clients find skills"
        )
    if not skill.examples:
        yield card_warning(f"{field}.examples", "is empty", "add a request that the skill handles")


def _check_security(config: CardConfig, requires_auth: bool | None) -> Iterator[CardFinding]:
    if config.security_schemes and requires_auth is False:
        yield card_error(
            "securitySchemes",
            "the server accepts anonymous callers",
            "verify callers with --tokens, --oidc or --tls-client-ca (verifier=, certificates=), "
            "or remove the field",
        )
    for name, scheme in config.security_schemes.items():
        field, kind = f"securitySchemes.{name}", scheme.get("type")
        if kind not in _SCHEME_TYPES:
            yield card_error(
                f"{field}.type",
                f"{kind!r} cannot be verified by this server",
                f"use one of {', '.join(_SCHEME_TYPES)}",
            )
        elif kind == "http" and str(scheme.get("scheme", "")).lower() != "bearer":
            yield card_error(f"{field}.scheme", "cannot be verified by this server", "use bearer")
        elif kind == "openIdConnect" and not scheme.get("openIdConnectUrl"):
            yield card_error(f"{field}.openIdConnectUrl", "is missing", "add the URL of the issuer")
        elif kind == "oauth2":
            yield from _check_flows(scheme.get("flows"), f"{field}.flows")
    yield from _check_requirements(config, config.security, "security")


def _check_flows(flows: object, field: str) -> Iterator[CardFinding]:
    if not isinstance(flows, dict) or not flows:
        yield card_error(field, "is missing", f"declare one of {', '.join(_FLOWS)}")
        return
    for name, flow in flows.items():
        if name not in _FLOWS:
            yield card_error(f"{field}.{name}", "is unknown", f"use one of {', '.join(_FLOWS)}")
            continue
        if not isinstance(flow, dict) or not isinstance(flow.get("scopes"), dict):
            yield card_error(f"{field}.{name}.scopes", "is missing", "map scopes to descriptions")
            continue
        for url in _FLOWS[name]:
            if not isinstance(flow.get(url), str) or not flow[url].startswith("https://"):
                yield card_error(f"{field}.{name}.{url}", "is not an https URL", "add the URL")


def _check_requirements(
    config: CardConfig, security: Security, field: str
) -> Iterator[CardFinding]:
    for alternative in security:
        for name, scopes in alternative.items():
            scheme = config.security_schemes.get(name)
            if scheme is None:
                yield card_error(field, f"{name!r} is not declared", "add it to securitySchemes")
                continue
            if scheme.get("type") != "oauth2":
                continue
            for scope in set(scopes).difference(declared_scopes(scheme)):
                yield card_error(
                    field,
                    f"the scope {scope!r} is not declared",
                    f"add it to the flows of {name!r}",
                )


def _check_capabilities(
    config: CardConfig, requires_auth: bool | None, can_push: bool
) -> Iterator[CardFinding]:
    if config.push_notifications and not can_push:
        yield card_error(
            "capabilities.pushNotifications", "this server does not push", "set it to false"
        )
    if config.extended_card and requires_auth is False:
        yield card_error(
            "supportsAuthenticatedExtendedCard",
            "the server accepts anonymous callers, who get no extended card",
            "verify tokens with --tokens or --oidc (verifier=), or set it to false",
        )
    if config.state_transition_history:
        yield card_error(
            "capabilities.stateTransitionHistory",
            "the server does not return earlier states of a task",
            "set it to false",
        )
