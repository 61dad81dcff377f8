"""A certificate authority for tests, with real keys."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


@dataclass(frozen=True)
class Issued:
    """A certificate and its private key, as files and as a value."""

    chain: Path
    key: Path
    certificate: x509.Certificate

    @property
    def pem(self) -> str:
        """Return the certificate as PEM."""
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    @property
    def der(self) -> bytes:
        """Return the certificate as DER."""
        return self.certificate.public_bytes(serialization.Encoding.DER)


@dataclass
class Authority:
    """A certificate authority that writes what it issues to a folder."""

    folder: Path
    name: str = "Test CA"
    _key: ec.EllipticCurvePrivateKey = field(
        default_factory=lambda: ec.generate_private_key(ec.SECP256R1())
    )

    @property
    def file(self) -> Path:
        """Write the certificate of the authority and return its path."""
        path = self.folder / f"{self.name}.pem"
        certificate = (
            _builder(_name(self.name), _name(self.name), self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return path

    def issue(
        self,
        common_name: str = "",
        *,
        uris: tuple[str, ...] = (),
        dns: tuple[str, ...] = (),
        address: str = "",
        is_client: bool = True,
        expired: bool = False,
    ) -> Issued:
        """Return a new certificate with these names."""
        key = ec.generate_private_key(ec.SECP256R1())
        names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(uri) for uri in uris]
        names += [x509.DNSName(name) for name in dns]
        names += [x509.IPAddress(ip_address(address))] if address else []
        usage = ExtendedKeyUsageOID.CLIENT_AUTH if is_client else ExtendedKeyUsageOID.SERVER_AUTH
        builder = _builder(_name(common_name), _name(self.name), key, expired=expired)
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        stem = f"{self.name}-{certificate.serial_number}"
        chain, private = self.folder / f"{stem}.pem", self.folder / f"{stem}.key"
        chain.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        private.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return Issued(chain, private, certificate)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)] if text else [])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, *, expired: bool = False
) -> x509.CertificateBuilder:
    now = datetime.now(UTC) - timedelta(days=2 if expired else 0)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=1))
        .not_valid_after(now + timedelta(hours=1))
    )
