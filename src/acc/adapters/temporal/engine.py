"""Start, continue and cancel runs in a Temporal service."""

import asyncio
import atexit
import time
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

import msgspec
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError, RPCStatusCode

from acc.adapters.temporal.location import TemporalLocation
from acc.adapters.temporal.workflow import NOTIFY, WORKFLOW
from acc.domain.errors import InvalidInput, Unauthenticated, Unavailable
from acc.ports.outbound.engine_ports import EngineWork

_CONNECT_SECONDS = 5.0
_RPC_TIMEOUT = timedelta(seconds=10)
_RETRY_AFTER_SECONDS = 5.0
_EXIT_SECONDS = 0.1
_REFUSED = (RPCStatusCode.UNAUTHENTICATED, RPCStatusCode.PERMISSION_DENIED)


def task_queue(app_name: str) -> str:
    """Return the queue of the workers of an app."""
    return f"acc-{app_name}"


class TemporalEngine:
    """Starts one workflow for each run; the ids of workflows are those of runs."""

    def __init__(self, location: TemporalLocation, *, api_key: str = "") -> None:
        self.location = location
        self._api_key = api_key
        self._client: Client | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def connect(self) -> None:
        """Check that the service responds and that the namespace exists."""
        await self.client()

    async def client(self) -> Client:
        """Return a client that is connected in the current event loop."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            self._client, self._loop = await self._connect(), loop
        return self._client

    async def start(self, work: EngineWork) -> None:
        """Start the workflow of a run, unless it is open."""
        await self._start(work)

    async def notify(self, work: EngineWork, *, start: bool = True) -> bool:
        """Signal the workflow of a run."""
        if start:
            await self._start(work, signal=NOTIFY)
            return True
        handle = (await self.client()).get_workflow_handle(workflow_id(work))
        try:
            await handle.signal(NOTIFY, None, rpc_timeout=_RPC_TIMEOUT)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return False
            raise self._explain(error) from None
        return True

    async def cancel(self, work: EngineWork) -> None:
        """Request the cancellation of the workflow of a run."""
        handle = (await self.client()).get_workflow_handle(workflow_id(work))
        try:
            await handle.cancel(rpc_timeout=_RPC_TIMEOUT)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise self._explain(error) from None

    async def started_at(self, work: EngineWork) -> datetime:
        """Return when the workflow of a run started, by the clock of the service."""
        handle = (await self.client()).get_workflow_handle(workflow_id(work))
        try:
            return (await handle.describe(rpc_timeout=_RPC_TIMEOUT)).start_time
        except RPCError as error:
            raise self._explain(error) from None

    async def aclose(self) -> None:
        """Forget the connection, which closes with its last reference."""
        self._client = self._loop = None

    async def _start(self, work: EngineWork, *, signal: str | None = None) -> None:
        client, payload = await self.client(), to_payload(work)
        try:
            await client.start_workflow(
                WORKFLOW,
                payload,
                id=workflow_id(work),
                task_queue=task_queue(work.app_name),
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                # By default a step that a worker took with it would be lost for 10 seconds.
                task_timeout=timedelta(seconds=self.location.worker_timeout),
                rpc_timeout=_RPC_TIMEOUT,
                start_signal=signal,
                start_signal_args=[payload] if signal else [],
            )
        except RPCError as error:
            raise self._explain(error) from None

    async def _connect(self) -> Client:
        _delay_exit()
        location = self.location
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                client = await Client.connect(
                    location.target,
                    namespace=location.namespace,
                    api_key=self._api_key or None,
                    tls=location.tls,
                )
                await client.workflow_service.describe_namespace(
                    DescribeNamespaceRequest(namespace=location.namespace),
                    timeout=_RPC_TIMEOUT,
                )
        except RPCError as error:
            raise self._explain(error) from None
        except (RuntimeError, TimeoutError):
            raise self._unavailable() from None
        return client

    def _explain(self, error: RPCError) -> Exception:
        """Return the error for a failed call; texts of the service are not repeated."""
        if error.status is RPCStatusCode.NOT_FOUND:
            return InvalidInput(
                f"the engine at {self.location.target} has no namespace "
                f"{self.location.namespace!r}; create it, or name another one in the URL: "
                "temporal://HOST:PORT/NAMESPACE"
            )
        if error.status in _REFUSED:
            return Unauthenticated(
                f"the engine {self.location} refuses the credentials; set ACC_TEMPORAL_API_KEY, "
                "and use ?tls=true if it requires TLS"
            )
        return self._unavailable(f" ({error.status.name})")

    def _unavailable(self, reason: str = "") -> Unavailable:
        return Unavailable(
            f"the engine {self.location} does not respond{reason}; check that a Temporal service "
            "runs at this address, and whether it requires ?tls=true",
            retry_after=_RETRY_AFTER_SECONDS,
        )


@lru_cache(maxsize=1)
def _delay_exit() -> None:
    """Let threads of the SDK release their objects before the interpreter ends.

    With temporalio 1.35, a process that ends right after a call crashes in about one of four cases.
    """
    atexit.register(time.sleep, _EXIT_SECONDS)


def workflow_id(work: EngineWork) -> str:
    """Return the id of the workflow of a run."""
    return f"acc/{work.app_name}/{work.run_id}"


def to_payload(work: EngineWork) -> dict[str, Any]:
    """Return work as JSON data."""
    payload: dict[str, Any] = msgspec.to_builtins(work)
    return payload


def from_payload(payload: dict[str, Any]) -> EngineWork:
    """Return the work of `to_payload`; fields of later versions are ignored."""
    return msgspec.convert(payload, EngineWork)
