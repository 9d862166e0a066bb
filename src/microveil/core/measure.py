"""A figure that explains itself: value, interval, chance level, range, direction and one sentence of meaning."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Measure:
    """One measured figure."""

    id: str
    value: float
    low: float
    high: float
    chance: float | None
    better: Literal["low", "high"]
    range: tuple[float, float]
    meaning: str

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}
