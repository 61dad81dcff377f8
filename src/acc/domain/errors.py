"""Every exception of ours, as one tree.

AccError                     internal
├── InvalidInput             invalid_input         what we were given is wrong, and where
│   ├── InvalidState         invalid_state         a CCS payload that does not fit the schema
│   ├── InvalidScenario      invalid_scenario      a scenario file; names file, turn and field
│   ├── InvalidTurnOrder     invalid_turn_order    turn ids are not 1..T
│   └── InvalidGate          invalid_gate          a --fail-if expression that cannot be read
├── JudgeContractBroken      judge_contract_broken a judge answered for other agents than asked
├── RunMismatch              run_mismatch          a run directory holds another configuration
├── RunDamaged               run_damaged           a run directory holds something we did not write
└── StorageFailed            storage_failed        the disk refused a write; earlier ones stay
"""

from collections.abc import Collection


class AccError(Exception):
    """Root of our errors. `code` is a promise to clients; the text is not."""

    code = "internal"


class InvalidInput(AccError):
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
