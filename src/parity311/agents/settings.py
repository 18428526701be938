"""What a hyper-parameter may be: declared beside it in its agent's configuration, checked here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

from parity311.errors import InputError


class Range(NamedTuple):
    """Numbers from `low` to `high`; `low` itself only where it is included."""

    low: float
    high: float
    is_low_allowed: bool = True

    def holds(self, value: float) -> bool:
        """Whether a number lies in it."""
        return (self.low <= value if self.is_low_allowed else self.low < value) and (
            value <= self.high
        )

    def __str__(self) -> str:
        """Its bounds in words."""
        first = f"{self.low:g} to" if self.is_low_allowed else f"above {self.low:g}, at most"
        return f"{first} {self.high:,.12g}"


Share = Annotated[float, Range(0, 1)]
StepSize = Annotated[float, Range(0, 10, is_low_allowed=False)]
Weight = Annotated[float, Range(0, 1e6)]
Size = Annotated[float, Range(0, 1e9, is_low_allowed=False)]
Count = Annotated[int, Range(1, 1_000_000_000)]
CountOrNone = Annotated[int, Range(0, 1_000_000_000)]
Layers = Annotated[tuple[int, ...], Range(1, 65_536)]
Categories = Annotated[tuple[int, ...], Range(0, 1000)]
CORNERS = "a list of preferences: four weights, none negative, that sum to 1"
Corners = Annotated[tuple[tuple[float, ...], ...], CORNERS]
Number = Annotated[str, ("float32", "bfloat16")]
"""Name of a type of number that networks compute in."""


def check_settings(agent: str, config_type: type, settings: Mapping[str, Any]) -> None:
    """Refuse a value of another type, or outside what its configuration declares."""
    hints = get_type_hints(config_type, include_extras=True)
    for name, value in settings.items():
        allowed = _what_is_wrong(hints[name], value)
        if allowed:
            raise InputError(
                f"Setting {name} of {agent} was given as {value!r}; allowed is {allowed}."
            )


def _what_is_wrong(hint: Any, value: Any) -> str:
    """What is allowed, where the value is not; empty where it is."""
    if get_origin(hint) is not Annotated:
        kind = hint if isinstance(hint, type) else get_origin(hint)
        return "" if isinstance(value, kind or object) else _name(kind)
    kind, limits = get_args(hint)
    if limits == CORNERS:
        return "" if isinstance(value, tuple) and all(map(_is_preference, value)) else CORNERS
    if not isinstance(limits, Range):
        return "" if value in limits else " or ".join(limits)
    if get_origin(kind) is tuple:
        is_whole = isinstance(value, tuple) and all(
            _is_number(one, int) and limits.holds(one) for one in value
        )
        return "" if is_whole else f"a list of whole numbers from {limits}"
    if _is_number(value, kind) and limits.holds(value):
        return ""
    return f"{_name(kind)} from {limits}" if limits.is_low_allowed else f"{_name(kind)} {limits}"


def _is_preference(value: Any) -> bool:
    is_four = isinstance(value, tuple) and len(value) == 4
    weights = value if is_four and all(_is_number(one, float) for one in value) else (-1.0,)
    return min(weights) >= 0.0 and abs(sum(weights) - 1.0) < 1e-4


def _is_number(value: Any, kind: Any) -> bool:
    kinds = (int,) if kind is int else (int, float)
    return isinstance(value, kinds) and not isinstance(value, bool) and math.isfinite(value)


def _name(kind: Any) -> str:
    return {int: "a whole number", float: "a number", bool: "true or false", tuple: "a list"}.get(
        kind, f"a {getattr(kind, '__name__', kind)}"
    )
