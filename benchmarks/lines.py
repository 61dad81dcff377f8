"""What every bench returns: a measured number and its bar."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """One measured number and the bar it has to keep under, or to reach; a bar of 0 is none.

    What could not be measured says in `missing` why, and keeps every bar.
    """

    what: str
    measured: float
    bar: float
    unit: str
    at_least: bool = False
    missing: str = ""

    @property
    def kept(self) -> bool:
        if not self.bar or self.missing:
            return True
        return self.measured >= self.bar if self.at_least else self.measured < self.bar
