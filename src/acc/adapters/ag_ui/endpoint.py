"""Runs of an agent for front ends that use AG-UI."""

import logging
from collections import Counter
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from functools import partial

from ag_ui.core import BaseEvent
from ag_ui.encoder import EventEncoder

from acc.adapters.ag_ui.projection import AgUiProjection
from acc.adapters.ag_ui.requests import AgUiRequest, read_answers, read_request
from acc.application.a2a.intent_admission import IntentAdmission
from acc.application.runtime.caller_rules import readable_state
from acc.application.runtime.runner import SessionRunner
from acc.application.tracing.spans import TRACE_PARENT
from acc.domain.errors import AccError, InvalidInput, LimitExceeded
from acc.domain.value_objects.approval import InputAnswer, InputRequest
from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.principal import AG_UI_CALLER, INVOKE_SCOPE, Owner, Principal
from acc.domain.value_objects.run import CallContext, trace_of_parent
from acc.ports.outbound.limit_ports import RateLimiterPort

log = logging.getLogger("acc.serve")
_INTERNAL_ERROR = "internal error"
#: Events that repeat the usage of other events; charging them would count it twice.
_REPEATED_USAGE = frozenset({EventKind.ENDED, EventKind.MODEL_REQUEST})


class AgUiEndpoint:
    """Starts and resumes runs; a thread of AG-UI is a session of the caller.

    `admission` decides who may call the agent. A caller has at most `max_runs` runs at a time.
    """

    def __init__(
        self,
        runner: SessionRunner,
        *,
        admission: IntentAdmission,
        max_runs: int,
        limiter: RateLimiterPort | None = None,
    ) -> None:
        self._runner = runner
        self._admission = admission
        self._max_runs = max_runs
        self._limiter = limiter
        self._running: Counter[Owner] = Counter()
        self._encoder = EventEncoder()

    async def open(
        self, principal: Principal, body: bytes, *, trace_parent: str = ""
    ) -> AsyncGenerator[bytes, None]:
        """Return the response to a request; an invalid request has no effect.

        Closing the response cancels the run.
        """
        principal.require(INVOKE_SCOPE)
        request = read_request(body)
        intents = self._admission.addressed({})
        self._admission.authorize(principal, intents)
        user = principal.owner.user_id
        account = principal.account
        if self._limiter is not None:
            await self._limiter.check_quota(account.user_id)
            for intent in intents:
                await self._limiter.count_request(account.user_id, intent)
        pending = await self._runner.pending(user_id=user, session_id=request.thread_id)
        if request.message and pending:
            raise InvalidInput(
                f"thread {request.thread_id!r} waits for answers to its interrupts "
                f"({', '.join(one.id for one in pending)}); send them in `resume`"
            )
        answers = read_answers(request.resume, pending, by=user)
        events = self._respond(principal, request, pending, answers, trace_parent)
        return _continued(await anext(events), events)  # the first event, if the run is admitted

    async def _respond(
        self,
        principal: Principal,
        request: AgUiRequest,
        pending: tuple[InputRequest, ...],
        answers: list[InputAnswer],
        trace_parent: str,
    ) -> AsyncGenerator[bytes, None]:
        runner, account = self._runner, principal.account
        user, thread = principal.owner.user_id, request.thread_id
        if self._running[account] >= self._max_runs:
            raise LimitExceeded(
                f"a caller may have at most {self._max_runs} runs at a time; wait until one ends"
            )
        self._running[account] += 1
        try:
            state = await runner.state(user_id=user, session_id=thread)
            history = await runner.events(user_id=user, session_id=thread)
        except BaseException:
            self._release(account)
            raise
        caller = f"{AG_UI_CALLER}{user}"
        readable = partial(readable_state, runner.agent, caller=caller)
        projection = AgUiProjection(request, state, readable)
        try:
            yield self._encode(projection.begin(history, pending))
            if request.message or answers:
                call = CallContext(
                    request_id=request.run_id,
                    trace_id=trace_of_parent(trace_parent) or request.run_id,
                    caller=caller,
                    permissions=principal.permissions,
                    account=account.user_id,
                    message_id=request.message_id,
                    metadata={TRACE_PARENT: trace_parent} if trace_parent else {},
                )
                events = runner.stream(
                    request.message or None,
                    user_id=user,
                    session_id=thread,
                    answers=answers,
                    context=call,
                )
                async with aclosing(events):
                    async for event in events:
                        await self._charge(account, event)
                        yield self._encode(projection.apply(event))
            yield self._encode(projection.finish())
        except AccError as error:
            log.warning("AG-UI run failed: %s", error, extra={"code": error.code})
            yield self._encode(projection.fail(str(error), error.code))
        except Exception:
            log.exception(_INTERNAL_ERROR)
            yield self._encode(projection.fail(_INTERNAL_ERROR, _INTERNAL_ERROR.replace(" ", "_")))
        finally:
            self._release(account)

    def _release(self, account: Owner) -> None:
        self._running[account] -= 1
        if not self._running[account]:
            del self._running[account]

    async def _charge(self, account: Owner, event: Event) -> None:
        if self._limiter is None or event.usage is None or event.kind in _REPEATED_USAGE:
            return
        usage = event.usage
        await self._limiter.charge(
            account.user_id,
            tokens=usage.input_tokens + usage.output_tokens,
            cost=usage.cost or 0.0,
        )

    def _encode(self, events: Iterable[BaseEvent]) -> bytes:
        return "".join(map(self._encoder.encode, events)).encode()


async def _continued(
    first: bytes, rest: AsyncGenerator[bytes, None]
) -> AsyncGenerator[bytes, None]:
    async with aclosing(rest):
        yield first
        async for chunk in rest:
            yield chunk
