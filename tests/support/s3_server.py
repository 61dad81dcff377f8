"""A server that is compatible with S3 and checks signatures, started on first use."""

import atexit
import socket
import subprocess
import sys
import time
import urllib.request
from functools import lru_cache
from typing import Any

import boto3  # type: ignore[import-untyped]
from child_process import end_with_parent

REGION = "us-east-1"
_START_SECONDS = 60.0
_POLICY = """{"Version": "2012-10-17", "Statement": [
  {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}"""


class S3Server:
    """A server on the loopback interface with one user, whose data is in memory."""

    def __init__(self) -> None:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        port = self.url.rpartition(":")[2]
        self._process = subprocess.Popen(  # noqa: S603 - our arguments
            [sys.executable, "-c", "from moto.server import main; main()"]
            + ["-H", "127.0.0.1", "-p", port],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=end_with_parent(),
        )
        deadline = time.monotonic() + _START_SECONDS
        while not self._accepts(int(port)):
            assert self._process.poll() is None, "the S3 server ended"
            assert time.monotonic() < deadline, "the S3 server did not start"
            time.sleep(0.05)
        iam = self._client("iam", "admin", "admin")
        iam.create_user(UserName="acc")
        iam.put_user_policy(UserName="acc", PolicyName="files", PolicyDocument=_POLICY)
        key = iam.create_access_key(UserName="acc")["AccessKey"]
        self.key, self.secret = key["AccessKeyId"], key["SecretAccessKey"]
        # From here on, requests must have a valid signature of a known user.
        enforce = urllib.request.Request(  # noqa: S310 - a loopback URL
            f"{self.url}/moto-api/reset-auth", b"0", {"Content-Type": "text/plain"}
        )
        urllib.request.urlopen(enforce).close()  # noqa: S310

    def environment(self, **changes: str) -> dict[str, str]:
        """Return the variables with which a client reaches the server."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
        } | changes

    def create_bucket(self, name: str) -> None:
        """Create an empty bucket."""
        self._client("s3", self.key, self.secret).create_bucket(Bucket=name)

    def stop(self) -> None:
        """End the server."""
        self._process.kill()
        self._process.wait()

    def _client(self, service: str, key: str, secret: str) -> Any:
        return boto3.client(
            service,
            endpoint_url=self.url,
            aws_access_key_id=key,
            aws_secret_access_key=secret,
            region_name=REGION,
        )

    @staticmethod
    def _accepts(port: int) -> bool:
        with socket.socket() as client:
            client.settimeout(1.0)
            return client.connect_ex(("127.0.0.1", port)) == 0


@lru_cache(maxsize=1)
def shared_server() -> S3Server:
    """Return the server that the tests of this process share."""
    server = S3Server()
    atexit.register(server.stop)
    return server
