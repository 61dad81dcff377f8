"""What every bench returns: a measured number and its bar."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """One measured number and the bar it has to keep under; a bar of 0 is none."""

    what: str
    measured: float
    bar: float
    unit: str

    @property
    def kept(self) -> bool:
        return not self.bar or self.measured < self.bar
