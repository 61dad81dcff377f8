"""`acc serve --tls-cert` in a process of its own."""

import ssl
import urllib.request
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from server_process import Server

from acc.cli import execute as run


def write_certificate(folder: Path) -> tuple[Path, Path]:
    """Write a self-signed certificate for 127.0.0.1 and its private key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(minutes=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA256())
    )
    chain, private = folder / "chain.pem", folder / "key.pem"
    chain.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return chain, private


def test_server_uses_tls(tmp_path: Path) -> None:
    chain, key = write_certificate(tmp_path)
    with Server(tmp_path, "--tls-cert", str(chain), "--tls-key", str(key)) as server:
        url = f"https://127.0.0.1:{server.port}/.well-known/agent-card.json"
        context = ssl.create_default_context(cafile=str(chain))
        with urllib.request.urlopen(url, context=context, timeout=10) as response:
            card = response.read().decode()
        assert f"https://127.0.0.1:{server.port}" in card
        assert f"http://127.0.0.1:{server.port}" not in card


def test_invalid_certificate_is_rejected_at_start(tmp_path: Path) -> None:
    chain, key = write_certificate(tmp_path)
    agent = "tests/integration/sample_agents.py:everything"
    for options in (["--tls-key", str(key)], ["--tls-cert", str(key)], ["--tls-cert", "none.pem"]):
        assert run(["serve", agent, "--port", "0", *options]) == 2, options
