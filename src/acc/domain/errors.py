"""The exception hierarchy. `code` values are stable; message texts are not.

The errors of contracts are in `contract_errors`.

AccError                     internal
├── InvalidInput             invalid_input         invalid input; the message names the field
│   ├── InvalidState         invalid_state         a CCS payload that does not match the schema
│   ├── InvalidScenario      invalid_scenario      a scenario file; names file, turn and field
│   ├── InvalidTurnOrder     invalid_turn_order    turn ids are not 1..T
│   ├── InvalidGate          invalid_gate          a --fail-if expression that cannot be parsed
│   ├── InvalidTree          invalid_tree          an agent or agent tree that cannot run
│   ├── StateNotStorable     state_not_storable    a state value that is not JSON data
│   ├── StateMissing         state_missing         an instruction refers to a missing state key
│   ├── InvalidInputs        invalid_inputs        inputs that violate the contract of an intent
│   ├── VaguePacket          vague_packet          a delegation packet with missing parts
│   ├── RequestIdReused      request_id_reused     a request id with other inputs than before
│   ├── ReplayRejected       replay_rejected       a request that is too old or was sent before
│   └── AddressRefused       address_refused       a network address that must not be called
├── JudgeContractBroken      judge_contract_broken a judge scored other agents than requested
├── RunMismatch              run_mismatch          a run directory has a different configuration
├── RunDamaged               run_damaged           a run directory has unexpected content
├── StorageFailed            storage_failed        a write failed; earlier writes are intact
├── StateConflict            state_conflict        two parallel branches wrote the same key
├── StateNotGranted          state_not_granted     a write outside the grant of the parent agent
├── BudgetExceeded           budget_exceeded       a run used up its calls, tokens or time
│   ├── RunTimedOut          run_timed_out         a run exceeded its timeout
│   └── TransferLoop         transfer_loop         too many transfers; names the path
├── ModelFailed              model_failed          a model call failed
├── ModelOutputInvalid       model_output_invalid  a model repeatedly returned invalid output
├── OutputUnavailable        output_unavailable    a run has no output of the agent's type
├── ToolFailed               tool_failed           a tool failed more often than its bound
├── AgentFailed              agent_failed          the code of an agent raised an exception
│   ├── BranchFailed         branch_failed         every branch of a parallel agent failed
│   └── InvalidOutputs       invalid_outputs       outputs that violate the contract of an intent
├── GraphStuck               graph_stuck           a join waits for an input that cannot arrive
├── NoRoute                  no_route              a router found no agent for the message
├── SessionBusy              session_busy          another run has the lease of the session
├── SessionConflict          session_conflict      another process changed the session
├── SessionWaiting           session_waiting       the session waits for an answer from a person
├── NothingPending           nothing_pending       an answer to a request that is not pending
├── ReplayMismatch           replay_mismatch       an agent behaved differently during resume
├── NotFound                 not_found             it does not exist for this caller
│   ├── TaskNotFound         task_not_found        no such task for this caller
│   ├── ContextNotFound      context_not_found     no such context for this caller
│   └── UnknownIntent        unknown_intent        the agent has no such intent
├── InvalidTransition        move_forbidden        a task state change that is not allowed
├── TaskNotCancelable        task_not_cancelable   the task has already ended
├── UnsupportedOperation     unsupported_operation not supported by this agent or task
│   ├── PushNotSupported     push_not_supported    the agent sends no push notifications
│   └── IntentNotCompleted   intent_not_completed  the task of an intent waits for input or ended
├── ContentTypeNotSupported  content_type_not_supported  the agent supports no requested media type
├── ExtendedCardMissing      extended_card_missing the agent has no extended card
├── ExtensionRequired        extension_required    the client must declare an extension
├── VersionNotSupported      version_not_supported an unsupported protocol version
├── Unauthenticated          unauthenticated       missing or invalid credentials
├── PermissionDenied         permission_denied     valid credentials without the permission
│   └── InsufficientScope    insufficient_scope    the credentials lack a scope; names it
├── LimitExceeded            limit_exceeded        a limit per caller is exceeded
│   └── RateLimited          rate_limited          too many requests; names the wait
├── Unavailable              unavailable           a required service does not respond
└── RemoteFailed             remote_failed         a call of a remote agent failed
    ├── CircuitOpen          circuit_open          repeated failures; names the next attempt
    ├── InvalidResponse      answer_unreadable     the response cannot be read
    └── RemoteRejected       remote_rejected       the remote agent rejected the task
"""

from collections.abc import Collection
from datetime import UTC, datetime
from math import ceil

from acc.domain.text import replace_surrogates


class AccError(Exception):
    """Base class. Clients may rely on `code`, not on the message text."""

    code = "internal"

    def __str__(self) -> str:
        """Return the message without unpaired surrogates, so that it can be stored."""
        return replace_surrogates(super().__str__())


class InvalidInput(AccError, ValueError):
    """Invalid input; the message names the problem."""

    code = "invalid_input"


class InvalidState(InvalidInput):
    """A payload that is not a valid Compressed Cognitive State."""

    code = "invalid_state"

    def __init__(self, field: str, fault: str) -> None:
        super().__init__(f"{field}: {fault}")
        self.field = field
        self.fault = fault


class InvalidScenario(InvalidInput):
    """All problems of one scenario file, each with its location."""

    code = "invalid_scenario"

    def __init__(self, source: str, faults: Collection[str]) -> None:
        self.source = source
        self.faults = tuple(faults)
        super().__init__("\n".join(f"{source}: {fault}" for fault in self.faults))


class InvalidTurnOrder(InvalidInput):
    """Turn ids that are not 1..T without a gap."""

    code = "invalid_turn_order"

    def __init__(self, expected: int, actual: int) -> None:
        super().__init__(
            f"turn ids must be 1, 2, 3, … without gaps: expected {expected}, got {actual}"
        )
        self.expected = expected
        self.actual = actual


class InvalidGate(InvalidInput):
    """A gate expression that cannot be parsed."""

    code = "invalid_gate"


class JudgeContractBroken(AccError):
    """A judge result that names other agents than the request."""

    code = "judge_contract_broken"

    def __init__(self, turn_id: int, requested: Collection[str], returned: Collection[str]) -> None:
        self.turn_id = turn_id
        self.requested = tuple(sorted(requested))
        self.returned = tuple(sorted(returned))
        super().__init__(
            f"turn {turn_id}: the judge was asked to score {list(self.requested)} "
            f"but returned scores for {list(self.returned)}"
        )


class RunMismatch(AccError):
    """A run directory that was created with a different configuration."""

    code = "run_mismatch"

    def __init__(self, directory: str, differences: Collection[str]) -> None:
        self.differences = tuple(differences)
        lines = "\n".join(f"  {difference}" for difference in self.differences)
        super().__init__(
            f"{directory} contains a run with a different configuration:\n{lines}\n"
            "Use another --out, or repeat the original command to continue that run."
        )


class RunDamaged(AccError):
    """A run directory whose content cannot be continued."""

    code = "run_damaged"


class StorageFailed(AccError):
    """A failed operation of a store; if `is_temporary`, it may succeed later."""

    code = "storage_failed"

    def __init__(self, message: str, *, is_temporary: bool = False) -> None:
        super().__init__(message)
        self.is_temporary = is_temporary


class InvalidTree(InvalidInput):
    """An agent or agent tree that cannot run as constructed."""

    code = "invalid_tree"


class StateNotStorable(InvalidInput):
    """A state value that is not JSON data."""

    code = "state_not_storable"

    def __init__(self, key: str, fault: str) -> None:
        super().__init__(f"state {key}: {fault}")
        self.key = key


class StateMissing(InvalidInput):
    """A placeholder whose state key does not exist."""

    code = "state_missing"

    def __init__(self, agent: str, key: str, known: Collection[str]) -> None:
        available = ", ".join(sorted(known)) or "none"
        super().__init__(
            f"the instruction of agent {agent!r} refers to {{{key}}}, which is not in the state "
            f"(available keys: {available}); write {{{key}?}} if the key is optional"
        )
        self.agent = agent
        self.key = key


class StateConflict(AccError):
    """A key that two parallel branches wrote without a merge rule."""

    code = "state_conflict"

    def __init__(self, key: str, branches: Collection[str]) -> None:
        self.key = key
        self.branches = tuple(branches)
        super().__init__(
            f"state key {key!r} was written by {' and '.join(self.branches)}; "
            f'use one key per branch or set a merge rule, for example merge={{"{key}": "list"}}'
        )


class StateNotGranted(AccError):
    """A write that the grant of the parent agent does not allow."""

    code = "state_not_granted"

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"state key {key!r} cannot be written: {reason}")
        self.key = key


class BudgetExceeded(AccError):
    """A run that exceeded a limit of its RunConfig."""

    code = "budget_exceeded"

    def __init__(self, what: str, limit: float, where: str, *, reason: str = "") -> None:
        text = f"{where}: the run reached its limit of {what} ({limit:g})"
        super().__init__(f"{text}: {reason}" if reason else text)
        self.what = what
        self.limit = limit


class RunTimedOut(BudgetExceeded):
    """A run that exceeded its timeout."""

    code = "run_timed_out"


class TransferLoop(BudgetExceeded):
    """Too many transfers between agents; `path` lists them in order."""

    code = "transfer_loop"

    def __init__(self, path: Collection[str], limit: int) -> None:
        self.path = tuple(path)
        super().__init__("max_hops", limit, " → ".join(self.path))


class ModelFailed(AccError):
    """A failed model call.

    `reason` is a word such as rate_limit, timeout or refused. `retryable` is True if the same
    request may succeed later. `retry_after` is the delay in seconds that the provider requested.
    """

    code = "model_failed"
    #: Reasons that affect every request until the configuration is fixed.
    _CONFIGURATION_REASONS = frozenset({"key_refused", "unknown_model", "not_installed"})

    def __init__(
        self,
        message: str,
        *,
        reason: str = "",
        model: str = "",
        provider: str = "",
        retryable: bool = False,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.model = model
        self.provider = provider
        self.retryable = retryable
        self.retry_after = retry_after

    @property
    def is_configuration_error(self) -> bool:
        """Return True if a retry is pointless until the configuration is fixed."""
        return self.reason in self._CONFIGURATION_REASONS


class ModelOutputInvalid(AccError):
    """A model that repeatedly returned invalid output."""

    code = "model_output_invalid"

    def __init__(self, agent: str, fault: str, attempts: int) -> None:
        super().__init__(
            f"the model of agent {agent!r} returned invalid output {attempts} times: {fault}"
        )
        self.agent = agent
        self.fault = fault


class OutputUnavailable(AccError):
    """A run without an output of the agent's output type."""

    code = "output_unavailable"


class ToolFailed(AccError):
    """A tool failed more often in a row than its `retries` allow, or with a programming error."""

    code = "tool_failed"

    def __init__(self, tool: str, fault: str, attempts: int) -> None:
        times = "once" if attempts == 1 else f"{attempts} times in a row"
        super().__init__(f"tool {tool!r} failed {times}: {fault}")
        self.tool = tool
        self.fault = fault
        self.attempts = attempts


class ModelRetry(Exception):
    """Raised by a tool: the model gets the message and may call the tool again.

    It is not an error of the run. Each time counts as a failed attempt of the tool.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(message)


class AgentFailed(AccError):
    """An exception in the code of an agent."""

    code = "agent_failed"

    def __init__(self, agent: str, fault: str) -> None:
        super().__init__(f"agent {agent!r} failed: {fault}")
        self.agent = agent


class BranchFailed(AgentFailed):
    """All branches of a parallel agent failed."""

    code = "branch_failed"


class GraphStuck(AccError):
    """A join of a graph that waits for an input that cannot arrive."""

    code = "graph_stuck"


class NoRoute(AccError):
    """A router that found no agent for the message."""

    code = "no_route"


class SessionBusy(AccError):
    """A session whose lease belongs to another run."""

    code = "session_busy"


class SessionConflict(AccError):
    """A session that another process took over or changed."""

    code = "session_conflict"


class SessionWaiting(AccError):
    """A session that accepts only answers to its pending requests."""

    code = "session_waiting"


class NothingPending(AccError):
    """An answer to a request that is not pending."""

    code = "nothing_pending"


class ReplayMismatch(AccError):
    """An agent that behaved differently when its run was resumed."""

    code = "replay_mismatch"


class NotFound(AccError):
    """An object that does not exist for this caller."""

    code = "not_found"


class TaskNotFound(NotFound):
    """A task that does not exist or belongs to another caller."""

    code = "task_not_found"

    def __init__(self, task_id: str) -> None:
        super().__init__(f"task {task_id!r} not found")
        self.task_id = task_id


class ContextNotFound(NotFound):
    """A context that does not exist or belongs to another caller."""

    code = "context_not_found"

    def __init__(self, context_id: str) -> None:
        super().__init__(f"context {context_id!r} not found; omit it to start a new one")
        self.context_id = context_id


class InvalidTransition(AccError):
    """A task update that the state machine does not allow."""

    code = "move_forbidden"

    def __init__(self, task_id: str, state: str, wanted: str) -> None:
        super().__init__(f"task {task_id!r} is {state}; {wanted} is not a valid transition")
        self.task_id = task_id
        self.state = state


class TaskNotCancelable(AccError):
    """A task that has already ended."""

    code = "task_not_cancelable"


class UnsupportedOperation(AccError):
    """An operation that this agent or this task does not support."""

    code = "unsupported_operation"


class PushNotSupported(UnsupportedOperation):
    """An agent that sends no push notifications."""

    code = "push_not_supported"


class ContentTypeNotSupported(AccError):
    """Media types that the agent does not support."""

    code = "content_type_not_supported"


class ExtendedCardMissing(AccError):
    """An agent without an extended card."""

    code = "extended_card_missing"


class ExtensionRequired(AccError):
    """A client that does not declare a required extension."""

    code = "extension_required"


class VersionNotSupported(AccError):
    """An unsupported protocol version."""

    code = "version_not_supported"


class Unauthenticated(AccError):
    """A caller with missing or invalid credentials."""

    code = "unauthenticated"


class PermissionDenied(AccError):
    """An authenticated caller without the required permission."""

    code = "permission_denied"


class InsufficientScope(PermissionDenied):
    """Credentials without the scope that an operation requires."""

    code = "insufficient_scope"

    def __init__(self, scope: str) -> None:
        super().__init__(f"insufficient_scope: this operation requires the scope {scope!r}")
        self.scope = scope


class LimitExceeded(AccError):
    """A caller who exceeds a limit per caller."""

    code = "limit_exceeded"


class RateLimited(LimitExceeded):
    """A caller who sends too many requests; `retry_after` is the wait in seconds."""

    code = "rate_limited"

    def __init__(self, limit: str, *, retry_after: float) -> None:
        super().__init__(
            f"the rate limit {limit} is exceeded; try again in {max(1, ceil(retry_after))} s"
        )
        self.limit = limit
        self.retry_after = retry_after


class Unavailable(AccError):
    """A service that an operation requires does not respond; `retry_after` is in seconds."""

    code = "unavailable"

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class CarrierFailed(AccError):
    """A carrier of events cannot be reached or refuses an event; nothing accepted is lost."""

    code = "carrier_failed"


class AddressRefused(InvalidInput):
    """A network address that must not be called from this machine.

    The message may be returned to the caller, so it reveals nothing about the local network.
    `detail` is for the operator and may contain resolved addresses. `may_be_allowed` is True if an
    entry in the allow-list would permit the address; the message then ends with the allow-list.
    """

    code = "address_refused"

    def __init__(self, message: str, *, detail: str = "", may_be_allowed: bool = False) -> None:
        super().__init__(message)
        self.detail = detail or message
        self.may_be_allowed = may_be_allowed

    def naming(self, allow_list: str) -> str:
        """Return the message and, if useful, the name of the allow-list."""
        return f"{self}, which is {allow_list}" if self.may_be_allowed else str(self)


class RemoteFailed(AccError):
    """A failed call of a remote agent."""

    code = "remote_failed"

    def __init__(self, message: str, *, remote_code: str = "", retryable: bool = False) -> None:
        super().__init__(message)
        self.remote_code = remote_code
        self.retryable = retryable


class RemoteRejected(RemoteFailed):
    """A remote agent rejected the task; a run that ends with it is rejected too."""

    code = "remote_rejected"

    def __init__(self, agent: str, reason: str) -> None:
        suffix = f": {reason}" if reason else ""
        super().__init__(
            f"agent {agent!r}: the remote task is rejected{suffix}", remote_code="rejected"
        )
        self.agent = agent
        self.reason = reason


class InvalidResponse(RemoteFailed):
    """A response that is too large or has an unsupported encoding."""

    code = "answer_unreadable"


class EmbeddedModelWarning(UserWarning):
    """An agent without a model is answered by the embedded model, which is no language model."""


class CircuitOpen(RemoteFailed):
    """A call that was not made because earlier calls failed repeatedly.

    `next_attempt` is the time of the next attempt in seconds since the epoch.
    """

    code = "circuit_open"

    def __init__(self, name: str, *, next_attempt: float, now: float) -> None:
        at = datetime.fromtimestamp(next_attempt, UTC).isoformat(timespec="seconds")
        super().__init__(
            f"{name} is not called because earlier calls failed repeatedly; the next attempt is "
            f"possible at {at}, in {max(0, ceil(next_attempt - now))} s",
            remote_code="circuit_open",
        )
        self.next_attempt = next_attempt
