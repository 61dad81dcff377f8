"""`acc contracts`: show, compare and use the contracts of intents."""

import sys
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from acc.application.contracts.stub import generate_client
from acc.bootstrap.contracts import ContractSet, load_contracts
from acc.cli.call import Allow, TokenEnv
from acc.cli.event_view import make_console, safe_text
from acc.cli.options import NO_TLS, TlsOptions
from acc.cli.output import print_json
from acc.domain.contract_changes import ChangeKind, compare_contracts
from acc.domain.errors import StorageFailed
from acc.domain.value_objects.contract import contract_to_json

app = App(
    name="contracts", help="Show and compare the contracts of intents.", group="Connect agents"
)
Source = Annotated[
    str,
    Parameter(help="MODULE:AGENT, the URL of an agent, or a JSON file of `acc contracts show`."),
]
_STYLES = {ChangeKind.BREAKING: "bold red", ChangeKind.COMPATIBLE: "green"}


@app.command
def show(
    source: Source,
    /,
    *,
    token_env: TokenEnv = "",
    allow: Allow = (),
    tls: TlsOptions = NO_TLS,
) -> int:
    """Print the contracts of an agent as JSON, with the JSON schemas of inputs and outputs.

    Example: acc contracts show shop.agents:root > contracts.json
    """
    _print(load_contracts(source, token_env=token_env, allow=allow, tls=tls.to_client_tls()))
    return 0


@app.command
def diff(
    old: Source,
    new: Source,
    /,
    *,
    json: Annotated[
        bool, Parameter(help="Print the changes as JSON.", negative=(), show_default=False)
    ] = False,
    token_env: TokenEnv = "",
    allow: Allow = (),
    tls: TlsOptions = NO_TLS,
) -> int:
    """Compare two versions of contracts. Exits with 1 if a change breaks existing callers.

    Example: acc contracts diff contracts.json shop.agents:root
    """
    before = load_contracts(old, token_env=token_env, allow=allow, tls=tls.to_client_tls())
    after = load_contracts(new, token_env=token_env, allow=allow, tls=tls.to_client_tls())
    changes = compare_contracts(before.contracts, after.contracts)
    if json:
        data = [{"kind": one.kind, "intent": one.intent, "text": one.text} for one in changes]
        print_json(msgspec.json.format(msgspec.json.encode(data), indent=2))
    else:
        output = make_console(sys.stdout)
        for change in changes:
            kind = safe_text(f"{change.kind.value:<11}", _STYLES[change.kind])
            output.print(kind + safe_text(f"{change.intent}: {change.text}"))
        if not changes:
            output.print(safe_text("the contracts are equal", "green"))
    return 1 if any(change.kind is ChangeKind.BREAKING for change in changes) else 0


@app.command
def stub(
    source: Source,
    /,
    *,
    out: Annotated[Path | None, Parameter(help="File to write; default: stdout.")] = None,
    token_env: TokenEnv = "",
    allow: Allow = (),
    tls: TlsOptions = NO_TLS,
) -> int:
    """Generate a typed Python client with one method for each intent.

    Example: acc contracts stub http://127.0.0.1:8000 --out desk_client.py
    """
    loaded = load_contracts(source, token_env=token_env, allow=allow, tls=tls.to_client_tls())
    code = generate_client(loaded.agent, loaded.contracts)
    if out is None:
        sys.stdout.write(code)
    else:
        try:
            out.write_text(code, encoding="utf-8")
        except OSError as error:
            raise StorageFailed(f"cannot write {out}: {error.strerror}") from error
    return 0


def _print(loaded: ContractSet) -> None:
    data = {
        "agent": loaded.agent,
        "contracts": [contract_to_json(contract) for contract in loaded.contracts],
    }
    print_json(msgspec.json.format(msgspec.json.encode(data), indent=2))
