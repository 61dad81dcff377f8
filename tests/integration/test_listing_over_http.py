"""Who may list tasks, in both generations and bindings, over real sockets."""

import json
from pathlib import Path

from server_process import SIDES, Server, Side, check_error, head


def listing(side: Side) -> bytes:
    """Return a request for the tasks of whoever has no name."""
    if not side.is_rpc:
        return head("GET", "/tasks" if side.is_new else "/v1/tasks", side.headers(""))
    method = "ListTasks" if side.is_new else "tasks/list"
    call = {"jsonrpc": "2.0", "id": 5, "method": method, "params": {}}
    return side.post(json.dumps(call).encode(), token="")


def test_a_server_that_knows_nobody_lists_nothing(tmp_path: Path) -> None:
    with Server(tmp_path) as server:
        for side in SIDES:
            error = check_error(server.send(listing(side)), side, status=401)
            assert "listing tasks requires" in error["message"]


def test_a_server_that_is_told_so_lists_to_anyone(tmp_path: Path) -> None:
    with Server(tmp_path, "--anonymous-listing") as server:
        for side in SIDES:
            reply = server.send(listing(side))
            assert reply.status == 200
            page = reply.json["result"] if side.is_rpc else reply.json
            assert page["tasks"] == []
