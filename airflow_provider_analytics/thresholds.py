"""Limits of the guards against loss, shared by snapshots, exclusion lists and websites as code."""

from __future__ import annotations

#: Default limit: a guard fails if a larger fraction is lost.
MAX_LOSS_FRACTION = 0.3
#: Smallest total that is checked, as in octoDNS: with few items, one is already a large fraction (1 of 3 is 33%).
MIN_COUNTED = 10


def loses_too_much(lost: int, before: int, max_fraction: float) -> bool:
    """Return whether more than ``max_fraction`` was lost; False for totals below :data:`MIN_COUNTED`."""
    return before >= MIN_COUNTED and lost / before > max_fraction
