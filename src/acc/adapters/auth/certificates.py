"""Client certificates: callers of a server, and the certificate of an agent that calls others."""

import base64
import logging
import re
import ssl
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network
from pathlib import Path
from urllib.parse import unquote

from cryptography import x509
from cryptography.x509.oid import ExtensionOID, NameOID

from acc.domain.errors import InvalidInput
from acc.domain.value_objects.principal import Principal

log = logging.getLogger("acc.auth")
_MAX_HEADER_LENGTH = 16 * 1024
_MAX_NAME_LENGTH = 256
_CACHE_SIZE = 256
_HEADER_NAME = re.compile(r"[A-Za-z0-9-]{1,64}")
#: The certificate in X-Forwarded-Client-Cert, the header of Envoy.
_ENVOY_CERTIFICATE = re.compile(r'(?:^|;)Cert="([^"]+)"', re.I)
_PEM_START = "-----BEGIN CERTIFICATE-----"


class ClientCertificates:
    """Callers with a client certificate; implements CertificateVerifierPort.

    The TLS layer has verified the certificate of a connection. A proxy that terminates TLS passes
    the certificate in a header, which is accepted from the addresses and networks in `proxies`
    only. The caller is the URI in the certificate, else its first DNS name, else its common name.
    `permissions` of None means all permissions.
    """

    def __init__(
        self,
        *,
        proxies: Collection[str] = (),
        header: str = "Client-Cert",
        permissions: Collection[str] | None = None,
    ) -> None:
        if isinstance(proxies, str):
            raise InvalidInput(f'proxies must be a list, such as ["{proxies}"]')
        if not _HEADER_NAME.fullmatch(header):
            raise InvalidInput(f"header must be the name of a header, got {header!r}")
        try:
            self._proxies = tuple(ip_network(proxy) for proxy in proxies)
        except ValueError as error:
            raise InvalidInput(
                f"a proxy must be an IP address or a network, such as 10.0.0.5: {error}"
            ) from None
        self._header = header.lower().encode()
        self._permissions = permissions if permissions is None else frozenset(permissions)

    def verify(
        self, *, address: str, headers: Mapping[bytes, bytes], certificate: str
    ) -> Principal | None:
        """Return the caller of a request, None if it has no acceptable certificate."""
        forwarded = self._header in headers
        try:
            if self._is_proxy(address):
                # The certificate of the connection is that of the proxy.
                if not forwarded:
                    return None
                caller = _caller(_read_header(headers[self._header].decode("latin-1")))
            else:
                if forwarded:
                    log.info(
                        "client certificate in the header %s of %s ignored: not a named proxy",
                        self._header.decode(),
                        address or "an unknown address",
                    )
                if not certificate:
                    return None
                caller = _caller(certificate)
        except ValueError as error:
            log.info("client certificate rejected: %s", error)
            return None
        return Principal(caller=caller, permissions=self._permissions)

    def _is_proxy(self, address: str) -> bool:
        if not self._proxies:
            return False
        try:
            parsed = ip_address(address)
        except ValueError:  # a Unix socket, or an application without addresses
            return False
        if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
            parsed = parsed.ipv4_mapped
        return any(parsed in network for network in self._proxies)


def client_tls_context(
    certificate: Path | None, private_key: Path | None, authority: Path | None
) -> ssl.SSLContext:
    """Return the TLS context of a client, or raise InvalidInput for a file that is not usable."""
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if authority is not None:
        _check_validity(authority, "the CA")
        context.load_verify_locations(authority)
    if certificate is None:
        return context
    _check_validity(certificate, "the client certificate")
    key = private_key or certificate
    _read_pem(key, "the private key")
    try:
        context.load_cert_chain(certificate, private_key, password="")
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise InvalidInput(
                f"the private key {key} does not belong to the client certificate {certificate}; "
                "name the key with which the certificate was requested"
            ) from None
        raise InvalidInput(
            f"the private key {key} cannot be used; expected a PEM file with a private key that "
            "has no password"
        ) from None
    return context


def _read_pem(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidInput(
            f"{what} {path} cannot be read ({error.strerror or error}); check the path"
        ) from None


def _check_validity(path: Path, what: str) -> None:
    """Raise InvalidInput unless a file has certificates of which the first is valid now."""
    content = _read_pem(path, what)
    try:
        first = x509.load_pem_x509_certificates(content)[0]
    except ValueError:
        raise InvalidInput(
            f"{what} {path} cannot be used; expected a PEM file with a certificate"
        ) from None
    now = datetime.now(UTC)
    if now > first.not_valid_after_utc:
        raise InvalidInput(
            f"{what} {path} expired on {first.not_valid_after_utc:%Y-%m-%d %H:%M} UTC; renew it"
        )
    if now < first.not_valid_before_utc:
        raise InvalidInput(
            f"{what} {path} is valid from {first.not_valid_before_utc:%Y-%m-%d %H:%M} UTC; check "
            "the clock of this machine"
        )


def _read_header(value: str) -> str:
    """Return the certificate in a header as PEM, or raise ValueError.

    The forms are `:BASE64:` (RFC 9440), PEM with percent-encoding, and X-Forwarded-Client-Cert.
    """
    value = value.strip()
    if len(value) > _MAX_HEADER_LENGTH:
        raise ValueError(f"the header has more than {_MAX_HEADER_LENGTH} characters")
    if len(value) > 1 and value[0] == value[-1] == ":":
        return ssl.DER_cert_to_PEM_cert(base64.b64decode(value[1:-1], validate=True))
    if "," not in value and (element := _ENVOY_CERTIFICATE.search(value)):
        value = element[1]
    pem = unquote(value)
    if not pem.startswith(_PEM_START) or pem.count(_PEM_START) != 1:
        raise ValueError("the header does not contain one certificate")
    return pem


def _caller(pem: str) -> str:
    """Return the name of the caller in a certificate, or raise ValueError."""
    name, begin, end = _names(pem)
    if not begin <= datetime.now(UTC) <= end:
        raise ValueError(f"the certificate of {name!r} is not valid now")
    return name


@lru_cache(maxsize=_CACHE_SIZE)
def _names(pem: str) -> tuple[str, datetime, datetime]:
    certificate = x509.load_pem_x509_certificate(pem.encode("latin-1"))
    uris: list[str] = []
    names: list[str] = []
    try:
        extension = certificate.extensions.get_extension_for_oid(
            ExtensionOID.SUBJECT_ALTERNATIVE_NAME
        )
    except x509.ExtensionNotFound:
        pass
    else:
        if isinstance(extension.value, x509.SubjectAlternativeName):
            uris = extension.value.get_values_for_type(x509.UniformResourceIdentifier)
            names = extension.value.get_values_for_type(x509.DNSName)
    if len(uris) > 1:
        raise ValueError("the certificate has several URIs, so that its caller is not known")
    common = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    found = [*uris, *names[:1], *(str(one.value) for one in common[:1])]
    if not found or not found[0].strip() or not found[0].isprintable():
        raise ValueError("the certificate has neither a URI nor a DNS name nor a common name")
    if len(found[0]) > _MAX_NAME_LENGTH:
        raise ValueError(f"the name in the certificate exceeds {_MAX_NAME_LENGTH} characters")
    return found[0], certificate.not_valid_before_utc, certificate.not_valid_after_utc
