"""How much may go before a guard asks: the same two numbers for snapshots, exclusion lists and websites as code."""

from __future__ import annotations

#: A larger part that goes trips a guard, unless the operator says otherwise.
MAX_LOSS_FRACTION = 0.3
#: Fractions say little about few things (one of three is a third): guards count from this many up, as octoDNS does.
MIN_COUNTED = 10


def loses_too_much(lost: int, before: int, max_fraction: float) -> bool:
    """Tell whether so many of so many are more than a guard allows; only a fraction strictly greater is."""
    return before >= MIN_COUNTED and lost / before > max_fraction
