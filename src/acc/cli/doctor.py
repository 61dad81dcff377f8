"""`acc doctor`: check an A2A server from outside."""

import asyncio
import math
import sys
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.status import Status

from acc.application.doctor.findings import CheckStatus
from acc.application.doctor.server import Target
from acc.application.doctor.wire import IntentProbe
from acc.application.use_cases.diagnose_server import CheckResult, Diagnosis
from acc.bootstrap.doctor import make_doctor, make_grpc_doctor
from acc.bootstrap.settings import resolve_token
from acc.cli.event_view import make_console, one_line, safe_text
from acc.cli.options import NO_TLS, TlsOptions
from acc.cli.output import error_console, print_error, print_json
from acc.domain.errors import AddressRefused, InvalidInput, RemoteFailed
from acc.domain.value_objects.credentials import ClientTls
from acc.domain.value_objects.endpoint import (
    add_scheme,
    check_agent_url,
    is_grpc_url,
    to_grpc_url,
)

_MARKS = {
    CheckStatus.OK: ("✓", "green"),
    CheckStatus.NOTE: ("i", "cyan"),
    CheckStatus.WARN: ("!", "yellow"),
    CheckStatus.FAIL: ("✗", "bold red"),
    CheckStatus.SKIPPED: ("-", "dim"),
}
_MARGIN = 4
_MAX_OBSERVATION_LENGTH = 1_000


@Parameter(name="*", group="Caller")
@dataclass(frozen=True, kw_only=True)
class CallerOptions:
    """Tokens of the callers."""

    token_env: Annotated[
        str,
        Parameter(help="Environment variable with a bearer token.", show_default=False),
    ] = ""
    second_token_env: Annotated[
        str,
        Parameter(
            help="The same for a second caller, to check the separation of callers.",
            show_default=False,
        ),
    ] = ""


@Parameter(name="*", group="Checks")
@dataclass(frozen=True, kw_only=True)
class CheckOptions:
    """Selection and options of the checks."""

    only: Annotated[
        tuple[str, ...],
        Parameter(
            help="Run only this check; can be repeated.",
            negative=(),
            consume_multiple=True,
            show_default=False,
        ),
    ] = ()
    allow: Annotated[
        tuple[str, ...],
        Parameter(
            help="A host, address or network that may be called although it is not public. "
            "A loopback URL needs no entry.",
            negative=(),
            consume_multiple=False,
            show_default=False,
        ),
    ] = ()
    intent: Annotated[
        str,
        Parameter(
            help="Call this intent with --data instead of sending a short text. The call is "
            "executed several times.",
            show_default=False,
        ),
    ] = ""
    data: Annotated[
        str, Parameter(help="With --intent: its inputs as a JSON object.", show_default=False)
    ] = ""
    timeout: Annotated[float, Parameter(help="Seconds to wait for each response.")] = 30.0
    json: Annotated[bool, Parameter(help="Print as JSON.", negative=(), show_default=False)] = False

    def call(self) -> IntentProbe | None:
        """Return the call of the intent, or raise InvalidInput."""
        if not self.intent:
            if self.data:
                raise InvalidInput("--data requires --intent NAME")
            return None
        try:
            inputs = msgspec.json.decode(self.data or "{}", type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise InvalidInput(f"--data must be a JSON object: {error}") from None
        return IntentProbe(intent=self.intent, inputs=inputs)


def doctor(
    url: Annotated[
        str,
        Parameter(
            help="URL of the server, or of its card; HOST:PORT, grpc://HOST:PORT or "
            "grpcs://HOST:PORT of a gRPC server."
        ),
    ],
    /,
    *,
    caller: CallerOptions | None = None,
    options: CheckOptions | None = None,
    tls: TlsOptions = NO_TLS,
) -> int:
    """Check an A2A server from outside; each problem comes with a fix.

    The command reads the card, sends a few short messages, and cancels its tasks at the end. It
    supports A2A 1.0 and 0.3 over JSON-RPC and HTTP+JSON, and over gRPC at an address without a
    card. Exits with status 1 if a check fails, and with 2 if the server cannot be reached or has no
    binding that the doctor supports.

    Example: acc doctor http://127.0.0.1:8000 --token-env MY_TOKEN
    """
    caller, options = caller or CallerOptions(), options or CheckOptions()
    if not 0 < options.timeout < math.inf:
        raise InvalidInput(f"--timeout must be positive and finite, got {options.timeout}")
    diagnosis = asyncio.run(_diagnose(url, caller, options, tls.to_client_tls()))
    if options.json:
        document = {"failed": diagnosis.has_failed, **msgspec.to_builtins(diagnosis)}
        print_json(msgspec.json.format(msgspec.json.encode(document), indent=2))
    else:
        _print_diagnosis(diagnosis)
    if diagnosis.not_tested:
        print_error(f"error: the server was not tested: {one_line(diagnosis.not_tested)}")
    if diagnosis.has_failed:
        return 1
    return 2 if diagnosis.not_tested else 0


def _token(variable: str) -> str:
    if not variable:
        return ""
    return resolve_token(f"env:{variable}")


async def _diagnose(
    url: str, caller: CallerOptions, options: CheckOptions, tls: ClientTls | None
) -> Diagnosis:
    if is_grpc_url(url):
        check_agent_url(url)
        return await _diagnose_grpc(url, caller, options, tls)
    target = Target(
        url=add_scheme(url),
        token=_token(caller.token_env),
        second_token=_token(caller.second_token_env),
        has_certificate=tls is not None and tls.cert is not None,
        call=options.call(),
    )
    try:
        return await _diagnose_http(target, options, tls)
    except InvalidInput as error:
        # HOST:PORT may be a gRPC server, which does not understand HTTP/1.1.
        address = to_grpc_url(url, encrypted=target.url.startswith("https:"))
        if "/" in url or not address or not isinstance(error.__cause__, RemoteFailed):
            raise
        try:
            return await _diagnose_grpc(address, caller, options, tls)
        except InvalidInput:
            raise error from None


async def _diagnose_grpc(
    url: str, caller: CallerOptions, options: CheckOptions, tls: ClientTls | None
) -> Diagnosis:
    try:
        async with make_grpc_doctor(
            url, allow=options.allow, timeout=options.timeout, tls=tls
        ) as diagnose:
            return await diagnose.run(
                url,
                token=_token(caller.token_env),
                second_token=_token(caller.second_token_env),
                call=options.call(),
                only=options.only,
            )
    except AddressRefused as error:
        raise InvalidInput(error.naming("--allow here")) from None
    except RemoteFailed as error:
        raise InvalidInput(
            f"no gRPC server at {url}: {error}; check that it runs, the port, and whether it uses "
            "TLS (grpcs://)"
        ) from None


async def _diagnose_http(target: Target, options: CheckOptions, tls: ClientTls | None) -> Diagnosis:
    output = error_console()
    status = Status("reading the card", console=output) if output.is_terminal else None
    try:
        async with make_doctor(
            target.url, allow=options.allow, timeout=options.timeout, tls=tls
        ) as diagnose:
            if status is not None:
                status.start()
            return await diagnose.run(
                target,
                only=options.only,
                on_check=lambda check: _update_status(status, f"{check.id}: {check.description}"),
            )
    except AddressRefused as error:
        raise InvalidInput(error.naming("--allow here")) from None
    except RemoteFailed as error:
        raise InvalidInput(
            f"no server at {target.url}: {error}; check that it runs and that the port is right"
        ) from error
    finally:
        if status is not None:
            status.stop()


def _update_status(status: Status | None, text: str) -> None:
    if status is not None:
        status.update(escape(text))


def _print_diagnosis(diagnosis: Diagnosis) -> None:
    output = make_console(sys.stdout)
    name = f"{one_line(diagnosis.agent)}, " if diagnosis.agent else ""
    interface = f", over {diagnosis.interface}" if diagnosis.interface else ""
    output.print(safe_text(f"{name}{diagnosis.fallback_url or diagnosis.url}{interface}", "bold"))
    if diagnosis.fallback_url:
        output.print(
            safe_text(f"{diagnosis.url} has no card; the card of {diagnosis.fallback_url} is used")
        )
    area = None
    for result in diagnosis.results:
        if result.area is not area:
            output.print(f"\n{result.area.value}", style="bold", markup=False)
            area = result.area
        _print_result(output, result)
    if diagnosis.manual_checks:
        output.print("\nCannot be checked from outside", style="bold")
    for manual in diagnosis.manual_checks:
        output.print(f"  ? {manual.title}  {manual.title_ja}", style="dim", markup=False)
        _paragraph(output, f"check: {manual.look_at}", "dim")
    if diagnosis.checklist:
        output.print("\nChecklist", style="bold")
    for line in diagnosis.checklist:
        seen = next((each for each in CheckStatus if each == line.status), None)
        mark, style = ("?", "dim") if seen is None else _MARKS[seen]
        output.print(
            safe_text(f"  {mark} ", style)
            + safe_text(f"{line.title}: {line.status}")
            + safe_text(f"  {line.title_ja}", "dim")
        )
        if line.observation:
            _paragraph(output, one_line(line.observation, _MAX_OBSERVATION_LENGTH), "dim")
    counts = [f"{diagnosis.count(each)} {each.value}" for each in CheckStatus]
    style = "bold red" if diagnosis.has_failed or diagnosis.not_tested else "green"
    output.print(f"\n{', '.join(counts)}", style=style, markup=False)


def _print_result(output: Console, result: CheckResult) -> None:
    mark, style = _MARKS[result.status]
    output.print(
        safe_text(f"  {mark} ", style)
        + safe_text(result.title)
        + safe_text(f"  {result.title_ja}  {result.id}", "dim")
    )
    _paragraph(
        output,
        one_line(result.observation, _MAX_OBSERVATION_LENGTH),
        "dim" if result.status is not CheckStatus.FAIL else "",
    )
    if result.fix:
        _paragraph(output, f"fix: {result.fix} [A2A {result.section}]", "")


def _paragraph(output: Console, text: str, style: str) -> None:
    """Print text with a margin; wrap lines only on a terminal."""
    if output.is_terminal and output.width > 4 * _MARGIN:
        output.print(Padding(safe_text(text, style), (0, 0, 0, _MARGIN)), soft_wrap=False)
    else:
        output.print(safe_text(f"{'':<{_MARGIN}}{text}", style))
