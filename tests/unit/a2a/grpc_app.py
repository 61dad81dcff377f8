"""An application that is served over gRPC within the process, and calls with official stubs."""

import json
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import grpc
from a2a.types import a2a_pb2, a2a_pb2_grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from google.rpc import error_details_pb2, status_pb2
from server_harness import CommandAgent

from acc import BaseAgent
from acc.a2a import A2AServer
from acc.adapters.a2a.server.grpc import GrpcAddress
from acc.bootstrap.a2a import ServeOptions, make_server

V1 = ("a2a-version", "1.0")


@dataclass
class GrpcApp:
    """A served application with a connected channel."""

    server: A2AServer
    agent: CommandAgent
    target: str
    channel: Any

    @property
    def stub(self) -> Any:
        """Return the official stub of version 1.0."""
        return a2a_pb2_grpc.A2AServiceStub(self.channel)  # type: ignore[no-untyped-call]

    async def raw(self, method: str, data: bytes, *metadata: tuple[str, str]) -> bytes:
        """Return the response to bytes that are sent unchanged to a method of version 1.0."""
        call = self.channel.unary_unary(f"/lf.a2a.v1.A2AService/{method}")
        response: bytes = await call(data, metadata=(V1, *metadata), timeout=20)
        return response

    async def send(self, text: str, *metadata: tuple[str, str], **options: Any) -> Any:
        """Return the task of a message."""
        response = await self.stub.SendMessage(request(text), metadata=(V1, *metadata), **options)
        return response.task

    @property
    def card(self) -> Any:
        return json.loads(self.server._documents.card)


def request(text: str, *, message_id: str = "", wait: bool = True) -> a2a_pb2.SendMessageRequest:
    return a2a_pb2.SendMessageRequest(
        message=a2a_pb2.Message(
            message_id=message_id or f"m-{text}",
            role=a2a_pb2.Role.ROLE_USER,
            parts=[a2a_pb2.Part(text=text)],
        ),
        configuration=a2a_pb2.SendMessageConfiguration(return_immediately=not wait),
    )


def answer(task: Any) -> str:
    return "".join(part.text for artifact in task.artifacts for part in artifact.parts)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@asynccontextmanager
async def served_over_grpc(
    *,
    certificate: Path | None = None,
    private_key: Path | None = None,
    client_authority: Path | None = None,
    roots: bytes = b"",
    channel_options: Sequence[tuple[str, Any]] = (),
    root: BaseAgent | None = None,
    **options: Any,
) -> AsyncIterator[GrpcApp]:
    """Serve an agent, by default one that executes commands."""
    agent = CommandAgent(name="desk", description="Executes commands.")
    address = GrpcAddress(
        host="127.0.0.1",
        port=free_port(),
        certificate=certificate,
        private_key=private_key,
        client_authority=client_authority,
    )
    scheme = "http" if certificate is None else "https"
    server = make_server(
        root or agent,
        ServeOptions(
            public_url=f"{scheme}://127.0.0.1:8000", grpc=address, anonymous_listing=True, **options
        ),
    )
    async with server.lifespan():
        if certificate is None:
            channel = grpc.aio.insecure_channel(address.target, options=channel_options)
        else:
            trusted = grpc.ssl_channel_credentials(roots)
            channel = grpc.aio.secure_channel(address.target, trusted, options=channel_options)
        async with channel:
            yield GrpcApp(server, agent, address.target, channel)


def details_of(error: grpc.aio.AioRpcError) -> tuple[Any, Any]:
    """Return ErrorInfo and BadRequest of a failed call."""
    info, violations = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
    trailing = dict(error.trailing_metadata())
    status = status_pb2.Status.FromString(trailing["grpc-status-details-bin"])
    assert status.code == error.code().value[0]
    assert status.message == error.details()
    for detail in status.details:
        for kind in (info, violations):
            if detail.Is(kind.DESCRIPTOR):
                detail.Unpack(kind)
    return info, violations


def write_certificate(folder: Path) -> tuple[Path, Path]:
    """Write a certificate for 127.0.0.1, signed by itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    chain, private = folder / "cert.pem", folder / "key.pem"
    chain.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return chain, private
