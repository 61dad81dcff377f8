"""An MCP server of the older protocol version, without the SDK, that violates the protocol.

python mcp_faulty_server.py MODE [FILE]: silent, dies, garbage, flood, mute, polite, stubborn,
leaks, rejects, sloppy
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

MODE = sys.argv[1]
FILE = Path(sys.argv[2]) if len(sys.argv) > 2 else None
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}
TOKEN = os.environ.get("TOK", "")
STDERR_TEXTS = {
    "dies": "no license found",
    "leaks": f"bad token {TOKEN} " + "." * 285,
}
tools = ["echo"]


def log_line(text: str) -> None:
    if FILE is not None:
        with FILE.open("a", encoding="utf-8") as out:
            out.write(text + "\n")


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def send_garbage() -> None:
    sys.stdout.write("Welcome to my server!\n{]\n\n[1, 2]\n\xff\n")
    send({"id": 424242, "result": {"who": "asked for this?"}})
    send({"method": "notifications/nonsense", "params": {"x": 1}})


def handle_request(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "rude", "version": "0"},
        }
    if method == "tools/list":
        if MODE == "mute":
            time.sleep(3600)
        listing: list[Any] = [{"name": name, "inputSchema": SCHEMA} for name in tools]
        if MODE == "sloppy":
            listing += [{"name": "no_schema"}, "no tool", {"name": 7, "inputSchema": SCHEMA}]
        return {"tools": listing}
    if method == "tools/call":
        return call_tool(params)
    return None


def call_tool(params: dict[str, Any]) -> dict[str, Any]:
    log_line(f"call {params['name']}")
    if MODE == "garbage" and params["arguments"].get("text") == "nonsense":
        return {"content": "this should be a list"}
    if MODE == "flood":
        while True:
            sys.stdout.write("x" * 65536)
    if params["arguments"].get("text") == "change":
        tools[:] = ["echo", "新しい"]
        send({"method": "notifications/tools/list_changed"})
    return {"content": [{"type": "text", "text": params["arguments"].get("text", "")}]}


def reply(message: dict[str, Any]) -> None:
    fault = {"code": -32601, "message": "no such method"}
    result = handle_request(message["method"], message.get("params") or {})
    if MODE == "rejects" and message["method"] == "tools/call":
        result, fault = None, {"code": -32050, "message": f"no such user: {TOKEN}"}
    actual = {"error": fault} if result is None else {"result": result}
    send({"id": message["id"], **actual})


def main() -> None:
    log_line("start")
    if MODE in STDERR_TEXTS:
        sys.stderr.write(STDERR_TEXTS[MODE] + "\n")
        sys.exit(3)
    if MODE == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = subprocess.Popen(["sleep", "600"])  # noqa: S607 - left behind on purpose
        log_line(f"child {child.pid}")
    for line in sys.stdin:
        if MODE == "silent":
            continue
        message = json.loads(line)
        if MODE == "garbage":
            send_garbage()
        if message["method"] == "notifications/cancelled":
            log_line("cancelled")
        if "id" not in message:
            continue
        reply(message)
    if MODE == "stubborn":
        time.sleep(3600)


if __name__ == "__main__":
    main()
