"""Every exception of ours, as one tree.

AccError                     internal
├── InvalidInput             invalid_input         what we were given is wrong, and where
│   ├── InvalidState         invalid_state         a CCS payload that does not fit the schema
│   ├── InvalidScenario      invalid_scenario      a scenario file; names file, turn and field
│   ├── InvalidTurnOrder     invalid_turn_order    turn ids are not 1..T
│   ├── InvalidGate          invalid_gate          a --fail-if expression that cannot be read
│   ├── InvalidTree          invalid_tree          an agent, or a tree of them, that cannot work
│   ├── StateNotStorable     state_not_storable    a state value that is not plain data
│   └── StateMissing         state_missing         an instruction asks for a key that is not there
├── JudgeContractBroken      judge_contract_broken a judge answered for other agents than asked
├── RunMismatch              run_mismatch          a run directory holds another configuration
├── RunDamaged               run_damaged           a run directory holds something we did not write
├── StorageFailed            storage_failed        the disk refused a write; earlier ones stay
├── StateConflict            state_conflict        two parallel branches wrote the same key
├── StateNotGranted          state_not_granted     a worker wrote what its parent did not grant
├── BudgetExceeded           budget_exceeded       a run spent its calls, tokens or time
│   ├── RunTimedOut          run_timed_out         a run took longer than its timeout
│   └── TransferLoop         transfer_loop         agents handed control around; shows the path
├── ModelFailed              model_failed          a model could not be asked
├── ModelOutputInvalid       model_output_invalid  a model kept answering what cannot be used
├── AgentFailed              agent_failed          an agent's own code raised
│   └── BranchFailed         branch_failed         every branch of a parallel agent failed
├── GraphStuck               graph_stuck           a join waits for what can no longer come
├── NoRoute                  no_route              a router found nobody to delegate to
├── SessionBusy              session_busy          another run holds the session
├── SessionConflict          session_conflict      another process took the session over
├── SessionWaiting           session_waiting       the session waits for a person's answer
├── NothingPending           nothing_pending       an answer came that nobody waits for
├── ReplayMismatch           replay_mismatch       an agent did something else when it was resumed
├── NotFound                 not_found             it does not exist, or not for who asks
│   ├── TaskNotFound         task_not_found        no such task of this caller
│   └── ContextNotFound      context_not_found     no such context of this caller
├── MoveForbidden            move_forbidden        a task cannot go from where it stands to there
├── TaskNotCancelable        task_not_cancelable   the task is over
├── UnsupportedOperation     unsupported_operation this agent, or this task as it stands, cannot
│   └── PushNotSupported     push_not_supported    this agent sends no notifications
├── ContentTypeNotSupported  content_type_not_supported  the agent reads or writes none of these
├── ExtendedCardMissing      extended_card_missing the agent has no extended card
├── ExtensionRequired        extension_required    the client must declare an extension
├── VersionNotSupported      version_not_supported the protocol has versions we do not speak
├── Unauthenticated          unauthenticated       no credentials, or none that are good
├── PermissionDenied         permission_denied     known, and not allowed
├── LimitExceeded            limit_exceeded        more than one caller may have or send
├── AddressRefused           address_refused       an address that must not be called from here
└── RemoteFailed             remote_failed         a remote agent could not be called, or failed
    ├── AnswerUnreadable     answer_unreadable     it answered, with what cannot be taken
    └── RemoteRejected       remote_rejected       it declined; a run that ends so is rejected
"""

from collections.abc import Collection

from acc.domain.text import replace_surrogates


class AccError(Exception):
    """Root of our errors. `code` is a promise to clients; the text is not."""

    code = "internal"

    def __str__(self) -> str:
        """Return the text, which may tell what others wrote, so that it can be stored."""
        return replace_surrogates(super().__str__())


class InvalidInput(AccError, ValueError):
    """Report input that cannot be used, naming the fault."""

    code = "invalid_input"


class InvalidState(InvalidInput):
    """Report a payload that is no Compressed Cognitive State."""

    code = "invalid_state"

    def __init__(self, field: str, fault: str) -> None:
        super().__init__(f"{field}: {fault}")
        self.field = field
        self.fault = fault


class InvalidScenario(InvalidInput):
    """Report everything wrong with one scenario file, each with its place."""

    code = "invalid_scenario"

    def __init__(self, source: str, faults: Collection[str]) -> None:
        self.source = source
        self.faults = tuple(faults)
        super().__init__("\n".join(f"{source}: {fault}" for fault in self.faults))


class InvalidTurnOrder(InvalidInput):
    """Report turn ids that do not run 1..T without a gap."""

    code = "invalid_turn_order"

    def __init__(self, expected: int, found: int) -> None:
        super().__init__(
            f"turn ids must run 1, 2, 3, … with no gap: expected {expected}, found {found}"
        )
        self.expected = expected
        self.found = found


class InvalidGate(InvalidInput):
    """Report a gate expression that cannot be read."""

    code = "invalid_gate"


class JudgeContractBroken(AccError):
    """Report a judge whose answer names other agents than it was given."""

    code = "judge_contract_broken"

    def __init__(self, turn_id: int, asked: Collection[str], returned: Collection[str]) -> None:
        self.turn_id = turn_id
        self.asked = tuple(sorted(asked))
        self.returned = tuple(sorted(returned))
        super().__init__(
            f"turn {turn_id}: the judge was asked about {list(self.asked)} "
            f"and answered about {list(self.returned)}"
        )


class RunMismatch(AccError):
    """Report a run directory that was made with another configuration."""

    code = "run_mismatch"

    def __init__(self, directory: str, differences: Collection[str]) -> None:
        self.differences = tuple(differences)
        listed = "\n".join(f"  {difference}" for difference in self.differences)
        super().__init__(
            f"{directory} holds a run with another configuration:\n{listed}\n"
            "Choose another --out, or repeat the command that made it to continue it."
        )


class RunDamaged(AccError):
    """Report a run directory with content that is not ours to continue."""

    code = "run_damaged"


class StorageFailed(AccError):
    """Report a write that the disk refused."""

    code = "storage_failed"


class InvalidTree(InvalidInput):
    """Report an agent, or a tree of agents, that cannot work as it is built."""

    code = "invalid_tree"


class StateNotStorable(InvalidInput):
    """Report a state value that is not plain data."""

    code = "state_not_storable"

    def __init__(self, key: str, fault: str) -> None:
        super().__init__(f"state {key}: {fault}")
        self.key = key


class StateMissing(InvalidInput):
    """Report a placeholder whose state key is not there."""

    code = "state_missing"

    def __init__(self, agent: str, key: str, known: Collection[str]) -> None:
        held = ", ".join(sorted(known)) or "nothing"
        super().__init__(
            f"the instruction of {agent!r} asks for {{{key}}}, but the state holds {held}; "
            f"write {{{key}?}} if it may be absent"
        )
        self.agent = agent
        self.key = key


class StateConflict(AccError):
    """Report a key that two parallel branches wrote, with no rule to merge it."""

    code = "state_conflict"

    def __init__(self, key: str, branches: Collection[str]) -> None:
        self.key = key
        self.branches = tuple(branches)
        super().__init__(
            f"state {key!r} was written by {' and '.join(self.branches)}; give each its own key, "
            f'or say how to join it, for instance merge={{"{key}": "list"}}'
        )


class StateNotGranted(AccError):
    """Report a write that the parent's grant does not allow."""

    code = "state_not_granted"

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"state {key!r} cannot be written: {reason}")
        self.key = key


class BudgetExceeded(AccError):
    """Report a run that spent what it was given."""

    code = "budget_exceeded"

    def __init__(self, what: str, limit: float, where: str) -> None:
        super().__init__(f"{where}: the run has used up {what} ({limit:g})")
        self.what = what
        self.limit = limit


class RunTimedOut(BudgetExceeded):
    """Report a run that took longer than it was given."""

    code = "run_timed_out"


class TransferLoop(BudgetExceeded):
    """Report agents that hand control around, with the path it took."""

    code = "transfer_loop"

    def __init__(self, path: Collection[str], limit: int) -> None:
        self.path = tuple(path)
        super().__init__("max_hops", limit, " → ".join(self.path))


class ModelFailed(AccError):
    """Report a model that could not be asked.

    `reason` is a word such as rate_limit, timeout or refused, `model` and `provider` say whose it
    was, and `retryable` whether the same question may succeed later. `retry_after` is how many
    seconds the provider wants to be left alone, where it said so.
    """

    code = "model_failed"
    #: Reasons that hold for every question, until who asks has mended something.
    _MISTAKES = frozenset({"key_refused", "unknown_model", "not_installed"})

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
    def is_mistake(self) -> bool:
        """Tell whether no question can be answered before who asks has mended something."""
        return self.reason in self._MISTAKES


class ModelOutputInvalid(AccError):
    """Report a model that kept answering what cannot be used."""

    code = "model_output_invalid"

    def __init__(self, agent: str, fault: str, attempts: int) -> None:
        super().__init__(f"the model of {agent!r} gave no usable answer {attempts} times: {fault}")
        self.agent = agent
        self.fault = fault


class AgentFailed(AccError):
    """Report an agent whose own code raised."""

    code = "agent_failed"

    def __init__(self, agent: str, fault: str) -> None:
        super().__init__(f"agent {agent!r} failed: {fault}")
        self.agent = agent


class BranchFailed(AgentFailed):
    """Report a parallel branch that failed where failures are collected."""

    code = "branch_failed"


class GraphStuck(AccError):
    """Report a join that waits for what can no longer come."""

    code = "graph_stuck"


class NoRoute(AccError):
    """Report a router that found nobody to delegate to."""

    code = "no_route"


class SessionBusy(AccError):
    """Report a session that another run holds."""

    code = "session_busy"


class SessionConflict(AccError):
    """Report a session that another process has taken over or changed."""

    code = "session_conflict"


class SessionWaiting(AccError):
    """Report a session that waits for an answer before anything else can happen in it."""

    code = "session_waiting"


class NothingPending(AccError):
    """Report an answer that nobody waits for."""

    code = "nothing_pending"


class ReplayMismatch(AccError):
    """Report an agent that did something else when its run was resumed."""

    code = "replay_mismatch"


class NotFound(AccError):
    """Report something that does not exist, or not for who asks."""

    code = "not_found"


class TaskNotFound(NotFound):
    """Report a task that does not exist, or belongs to another."""

    code = "task_not_found"

    def __init__(self, task_id: str) -> None:
        super().__init__(f"task {task_id!r} not found")
        self.task_id = task_id


class ContextNotFound(NotFound):
    """Report a context that belongs to another, or does not exist where it must."""

    code = "context_not_found"

    def __init__(self, context_id: str) -> None:
        super().__init__(f"context {context_id!r} not found; leave it out to begin a new one")
        self.context_id = context_id


class InvalidTransition(AccError):
    """Report an update that the table of moves does not allow."""

    code = "move_forbidden"

    def __init__(self, task_id: str, state: str, wanted: str) -> None:
        super().__init__(f"task {task_id!r} is {state} and cannot become or take {wanted}")
        self.task_id = task_id
        self.state = state


class TaskNotCancelable(AccError):
    """Report a task that is over already."""

    code = "task_not_cancelable"


class UnsupportedOperation(AccError):
    """Report something that this agent, or this task as it stands, cannot do."""

    code = "unsupported_operation"


class PushNotSupported(UnsupportedOperation):
    """Report an agent that sends no notifications."""

    code = "push_not_supported"


class ContentTypeNotSupported(AccError):
    """Report media types that the agent does not read or write."""

    code = "content_type_not_supported"


class ExtendedCardMissing(AccError):
    """Report an agent that has no extended card."""

    code = "extended_card_missing"


class ExtensionRequired(AccError):
    """Report a client that does not declare an extension it must use."""

    code = "extension_required"


class VersionNotSupported(AccError):
    """Report a version of the protocol that is not spoken here."""

    code = "version_not_supported"


class Unauthenticated(AccError):
    """Report a caller without credentials, or with none that are good."""

    code = "unauthenticated"


class PermissionDenied(AccError):
    """Report a caller who is known and not allowed."""

    code = "permission_denied"


class LimitExceeded(AccError):
    """Report a caller who has or sends more than one caller may."""

    code = "limit_exceeded"


class AddressRefused(InvalidInput):
    """Report an address that must not be called from here.

    The text may go to whoever named the address: it tells nothing about the network here. What a
    name stands for, which only the operator may know, is in `detail`. `may_be_allowed` if the text
    ends with the allow-list, an entry of which would help.
    """

    code = "address_refused"

    def __init__(self, message: str, *, detail: str = "", may_be_allowed: bool = False) -> None:
        super().__init__(message)
        self.detail = detail or message
        self.may_be_allowed = may_be_allowed

    def naming(self, allow_list: str) -> str:
        """Return the text, with what the allow-list is called here where it would help."""
        return f"{self}, which is {allow_list}" if self.may_be_allowed else str(self)


class RemoteFailed(AccError):
    """Report a remote agent that could not be called, or that failed."""

    code = "remote_failed"

    def __init__(self, message: str, *, remote_code: str = "", retryable: bool = False) -> None:
        super().__init__(message)
        self.remote_code = remote_code
        self.retryable = retryable


class RemoteRejected(RemoteFailed):
    """Report a remote agent that declined what it was asked.

    Where others can do without it, it is a failure as any other; a run that it ends is rejected.
    """

    code = "remote_rejected"

    def __init__(self, agent: str, reason: str) -> None:
        said = f": {reason}" if reason else ""
        super().__init__(
            f"agent {agent!r}: the remote task is rejected{said}", remote_code="rejected"
        )
        self.agent = agent
        self.reason = reason


class InvalidResponse(RemoteFailed):
    """Report an answer that cannot be taken: it is too long, or compressed in no known way."""

    code = "answer_unreadable"
