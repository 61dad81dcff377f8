"""One measured value with its limit, as every benchmark returns it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Measurement:
    """A measured value and its limit: an upper bound, or a lower bound with `at_least`.

    A limit of 0 means no limit. `missing` states why a value could not be measured.
    """

    name: str
    value: float
    limit: float
    unit: str
    at_least: bool = False
    missing: str = ""

    @property
    def within_limit(self) -> bool:
        if not self.limit or self.missing:
            return True
        return self.value >= self.limit if self.at_least else self.value < self.limit

    def __str__(self) -> str:
        if self.missing:
            return f"---- {self.name:52} not measured: {self.missing}"
        mark = "ok  " if self.within_limit else "FAIL"
        bound = f", limit {'at least ' if self.at_least else ''}{self.limit:g}"
        return f"{mark} {self.name:52} {self.value:10.4g} {self.unit}{bound if self.limit else ''}"
