"""Authorization of task listing in all wire formats."""

import json
from pathlib import Path

from server_process import WIRE_FORMATS, Server, WireFormat, check_error, head


def listing_request(wire_format: WireFormat) -> bytes:
    """Return a listing request without a token."""
    if not wire_format.is_rpc:
        return head("GET", "/tasks" if wire_format.is_new else "/v1/tasks", wire_format.headers(""))
    method = "ListTasks" if wire_format.is_new else "tasks/list"
    call = {"jsonrpc": "2.0", "id": 5, "method": method, "params": {}}
    return wire_format.post(json.dumps(call).encode(), token="")


def test_anonymous_listing_is_allowed_on_loopback(tmp_path: Path) -> None:
    with Server(tmp_path) as server:
        for wire_format in WIRE_FORMATS:
            reply = server.send(listing_request(wire_format))
            assert reply.status == 200
            page = reply.json["result"] if wire_format.is_rpc else reply.json
            assert page["tasks"] == []


PUBLIC = ("--public-url", "https://desk.example", "--unprotected")


def test_anonymous_listing_elsewhere_needs_the_option(tmp_path: Path) -> None:
    with Server(tmp_path, *PUBLIC) as server:
        for wire_format in WIRE_FORMATS:
            error = check_error(server.send(listing_request(wire_format)), wire_format, status=401)
            assert "--anonymous-listing" in error["message"]
    with Server(tmp_path, *PUBLIC, "--anonymous-listing") as server:
        for wire_format in WIRE_FORMATS:
            assert server.send(listing_request(wire_format)).status == 200
