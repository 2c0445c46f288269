# SPDX-License-Identifier: Apache-2.0
"""Options of the simulated service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field


class Options(BaseModel):
    """Behavior of the simulated service where the interface leaves it open."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: Create a second website of the same domain instead of rejecting it.
    allow_duplicates: bool = False
    #: Number of reads after each write that return the websites as they were before the write.
    reads_behind: int = Field(default=0, ge=0)
    #: Seconds after each write in which reads return the websites as they were before the write.
    seconds_behind: float = Field(default=0, ge=0)

    def changed(self, changes: Mapping[str, Any]) -> Self:
        """Return a copy with some options changed.

        :raises ValueError: for an unknown name or a bad value.
        """
        return self.model_validate({**dict(self), **changes})
