"""Cost of model calls: calls, sums, prices, and amounts as text."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from acc.domain.errors import InvalidInput
from acc.domain.value_objects.base import Value

_MILLION = 1_000_000
_SMALLEST_AMOUNT = 0.0001


class CostCategory(StrEnum):
    """What a model is used for."""

    AGENT = "agent"
    COMPRESSOR = "compressor"
    JUDGE = "judge"


class ModelCall(Value, frozen=True, kw_only=True):
    """One call of a model, with its tokens and cost.

    `agent` is empty for the judge. `turn` is the turn of the episode, 0 if unknown. `cost` is in US
    dollars, None if the price is unknown. If `from_cache` is true, the answer came from the answer
    cache and no request was sent. The tokens of a `failed` call are unknown.
    """

    category: CostCategory
    agent: str = ""
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: float | None = None
    from_cache: bool = False
    failed: bool = False
    turn: int = 0


@dataclass(slots=True, kw_only=True)
class Account:
    """A sum of calls; tokens and cost are those of successful requests."""

    calls: int = 0
    from_cache: int = 0
    failed: int = 0
    #: Successful calls of unknown price.
    unpriced: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    #: The known cost in US dollars; None if calls were made and no price is known.
    cost: float | None = 0.0
    models: list[str] = field(default_factory=list)

    def add(self, call: ModelCall) -> None:
        """Add a call."""
        if call.model and call.model not in self.models:
            self.models.append(call.model)
        if call.from_cache:
            self.from_cache += 1
            return
        self.calls += 1
        if call.failed:
            self.failed += 1
            self.cost = _known_cost(self)
            return
        self.input_tokens += call.input_tokens
        self.output_tokens += call.output_tokens
        self.cached_tokens += call.cached_tokens
        if call.cost is not None:
            self.cost = (self.cost or 0.0) + call.cost
            return
        self.unpriced += 1
        self.cost = _known_cost(self)

    def include(self, other: "Account") -> None:
        """Add the calls of another account."""
        self.calls += other.calls
        self.from_cache += other.from_cache
        self.failed += other.failed
        self.unpriced += other.unpriced
        self.input_tokens += other.input_tokens
        self.output_tokens += other.output_tokens
        self.cached_tokens += other.cached_tokens
        self.models += [model for model in other.models if model not in self.models]
        if other.cost is not None:
            self.cost = (self.cost or 0.0) + other.cost
        self.cost = _known_cost(self)

    @property
    def known_cost(self) -> float:
        """Return the known cost in US dollars."""
        return self.cost or 0.0

    @property
    def cost_text(self) -> str:
        """Return the cost as text."""
        if self.cost is None:
            return "price not known" if self.unpriced else "not known"
        more = f" and {_count_calls(self.unpriced)} of unknown price" if self.unpriced else ""
        return f"{dollars(self.cost)}{more}"


class Accounts:
    """Costs by category and agent."""

    def __init__(self, calls: Iterable[ModelCall] = ()) -> None:
        self.by_spender: dict[tuple[CostCategory, str], Account] = {}
        self.total = Account()
        for call in calls:
            self.add(call)

    def add(self, call: ModelCall) -> None:
        """Add a call to the account of its category and agent."""
        self.by_spender.setdefault((call.category, call.agent), Account()).add(call)
        self.total.add(call)

    def of(self, category: CostCategory) -> Account | None:
        """Return the sum of one category, or None if there was no call."""
        accounts = [account for (key, _), account in self.by_spender.items() if key is category]
        if not accounts:
            return None
        total = Account()
        for account in accounts:
            total.include(account)
        return total

    def rows(self, agents: Iterable[str] = ()) -> list[tuple[CostCategory, str, Account]]:
        """Return the accounts grouped by agent, with the judge last.

        `agents` sets the order; other agents follow.
        """
        order = {name: index for index, name in enumerate(agents)}
        rows = [(key[0], key[1], account) for key, account in self.by_spender.items()]
        categories = list(CostCategory)
        return sorted(
            rows,
            key=lambda row: (
                row[0] is CostCategory.JUDGE,
                order.get(row[1], len(order)),
                row[1],
                categories.index(row[0]),
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Price in US dollars per million input and output tokens."""

    input: float
    output: float

    def __post_init__(self) -> None:
        if not (0 <= self.input < _MILLION and 0 <= self.output < _MILLION):
            raise InvalidInput(
                f"invalid price {self.input:.15g}/{self.output:.15g}: both must be at least 0 and "
                f"below {_MILLION:,} US dollars per million tokens"
            )

    def cost(self, input_tokens: int, output_tokens: int) -> float:
        """Return the cost of tokens in US dollars."""
        return (self.input * input_tokens + self.output * output_tokens) / _MILLION


#: The price of models that run locally.
FREE = Price(input=0.0, output=0.0)


def parse_price(text: str) -> tuple[str, Price]:
    """Return the model and the price of `MODEL=IN/OUT`."""
    model, _, figures = text.rpartition("=")
    before, _, after = figures.partition("/")
    try:
        amounts = (float(before), float(after))
    except ValueError:
        model, amounts = "", (0.0, 0.0)
    if not model.strip():
        raise InvalidInput(
            f"--price {text!r} must be MODEL=IN/OUT, US dollars per million input and output "
            "tokens, for example openai-compatible:qwen3@http://127.0.0.1:8080/v1=0.10/0.40"
        )
    return model.strip(), Price(input=amounts[0], output=amounts[1])


def spender(category: CostCategory, agent: str) -> str:
    """Return the name of an account in tables."""
    if category is CostCategory.JUDGE:
        return "judge"
    return agent if category is CostCategory.AGENT else f"compressor of {agent}"


def dollars(amount: float) -> str:
    """Return an amount of US dollars as text; tiny amounts are not shown as 0."""
    if 0 < amount < _SMALLEST_AMOUNT:
        return f"under ${_SMALLEST_AMOUNT}"
    return f"${amount:,.2f}" if amount >= 100 else f"${amount:.4f}"


def _count_calls(calls: int) -> str:
    return f"{calls:,} call" if calls == 1 else f"{calls:,} calls"


def _known_cost(account: Account) -> float | None:
    """Return the cost, or None if calls were made and no price is known."""
    is_unknown = account.calls and account.unpriced + account.failed == account.calls
    return None if is_unknown else account.cost
