"""What models cost: one call, the sum of many, prices, and how money is written."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from acc.domain.errors import InvalidInput
from acc.domain.value_objects.base import Value

_MILLION = 1_000_000
_LEAST_SHOWN = 0.0001


class CostCategory(StrEnum):
    """What a model is asked for."""

    AGENT = "agent"
    COMPRESSOR = "compressor"
    JUDGE = "judge"


class ModelCall(Value, frozen=True, kw_only=True):
    """One question to a model, and what it cost; `agent` is whose it was, empty for the judge's.

    `cost` is in US dollars, and None where the price is not known. A `kept` answer was taken from
    the disk: nothing was asked. Of a `failed` call nobody told the tokens.
    """

    part: CostCategory
    agent: str = ""
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: float | None = None
    kept: bool = False
    failed: bool = False


@dataclass(slots=True, kw_only=True)
class Account:
    """A sum of calls. Tokens and money are of the calls that were really made and answered."""

    calls: int = 0
    kept: int = 0
    failed: int = 0
    #: Calls that were answered and whose price is not known.
    unpriced: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    #: What is known of the money; None where calls were made and the price of none is known.
    cost: float | None = 0.0
    models: list[str] = field(default_factory=list)

    def add(self, call: ModelCall) -> None:
        """Count a call."""
        if call.model and call.model not in self.models:
            self.models.append(call.model)
        if call.kept:
            self.kept += 1
            return
        self.calls += 1
        if call.failed:
            self.failed += 1
            self.cost = _known(self)
            return
        self.input_tokens += call.input_tokens
        self.output_tokens += call.output_tokens
        self.cached_tokens += call.cached_tokens
        if call.cost is not None:
            self.cost = (self.cost or 0.0) + call.cost
            return
        self.unpriced += 1
        self.cost = _known(self)

    @property
    def money_known(self) -> float:
        """Return how much is known to be spent."""
        return self.cost or 0.0

    @property
    def money(self) -> str:
        """Return what is known of the cost in words."""
        if self.cost is None:
            return "price not known" if self.unpriced else "not known"
        more = f" and {_counted(self.unpriced)} of unknown price" if self.unpriced else ""
        return f"{dollars(self.cost)}{more}"


class Accounts:
    """What was spent, by part and agent."""

    def __init__(self, calls: Iterable[ModelCall] = ()) -> None:
        self.by_spender: dict[tuple[CostCategory, str], Account] = {}
        self.total = Account()
        for call in calls:
            self.add(call)

    def add(self, call: ModelCall) -> None:
        """Count a call with those of the same part and agent."""
        self.by_spender.setdefault((call.part, call.agent), Account()).add(call)
        self.total.add(call)

    def of(self, part: CostCategory) -> Account | None:
        """Return what all agents together spent on one part, or None where nothing was asked."""
        found = [account for (of, _), account in self.by_spender.items() if of is part]
        return _together(found) if found else None

    def rows(self, agents: Iterable[str] = ()) -> list[tuple[CostCategory, str, Account]]:
        """Return the accounts, those of each agent together and the judge's last.

        `agents` gives the order; who is not in it comes after.
        """
        order = {name: place for place, name in enumerate(agents)}
        rows = [(part, agent, account) for (part, agent), account in self.by_spender.items()]
        parts = list(CostCategory)
        return sorted(
            rows,
            key=lambda row: (
                row[0] is CostCategory.JUDGE,
                order.get(row[1], len(order)),
                row[1],
                parts.index(row[0]),
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """US dollars for a million tokens, read and written."""

    input: float
    output: float

    def __post_init__(self) -> None:
        if not (0 <= self.input < _MILLION and 0 <= self.output < _MILLION):
            raise InvalidInput(
                f"a price of {self.input:.15g}/{self.output:.15g} cannot be: both are from 0 to "
                f"below {_MILLION:,} US dollars for a million tokens"
            )

    def cost(self, input_tokens: int, output_tokens: int) -> float:
        """Return what so many tokens cost in US dollars."""
        return (self.input * input_tokens + self.output * output_tokens) / _MILLION


#: The price of what runs on this machine.
FREE = Price(input=0.0, output=0.0)


def parse_price(text: str) -> tuple[str, Price]:
    """Return the model and the price of `MODEL=IN/OUT`, in dollars for a million tokens."""
    model, _, figures = text.rpartition("=")
    before, _, after = figures.partition("/")
    try:
        amounts = (float(before), float(after))
    except ValueError:
        model, amounts = "", (0.0, 0.0)
    if not model.strip():
        raise InvalidInput(
            f"--price {text!r} must be MODEL=IN/OUT, US dollars for a million tokens read and "
            "written, as in openai-compatible:qwen3@http://127.0.0.1:8080/v1=0.10/0.40"
        )
    return model.strip(), Price(input=amounts[0], output=amounts[1])


def spender(part: CostCategory, agent: str) -> str:
    """Return who spends, as tables name it."""
    if part is CostCategory.JUDGE:
        return "judge"
    return agent if part is CostCategory.AGENT else f"compressor of {agent}"


def dollars(amount: float) -> str:
    """Return an amount of US dollars; one that is too small to show is not shown as nothing."""
    if 0 < amount < _LEAST_SHOWN:
        return f"under ${_LEAST_SHOWN}"
    return f"${amount:,.2f}" if amount >= 100 else f"${amount:.4f}"


def _counted(calls: int) -> str:
    return f"{calls:,} call" if calls == 1 else f"{calls:,} calls"


def _together(accounts: Iterable[Account]) -> Account:
    found = Account()
    for one in accounts:
        found.calls += one.calls
        found.kept += one.kept
        found.failed += one.failed
        found.unpriced += one.unpriced
        found.input_tokens += one.input_tokens
        found.output_tokens += one.output_tokens
        found.cached_tokens += one.cached_tokens
        found.models += [model for model in one.models if model not in found.models]
        if one.cost is not None:
            found.cost = (found.cost or 0.0) + one.cost
    found.cost = _known(found)
    return found


def _known(account: Account) -> float | None:
    """Return what is known of the money, None where calls were made and no price is known."""
    nothing = account.calls and account.unpriced + account.failed == account.calls
    return None if nothing else account.cost
