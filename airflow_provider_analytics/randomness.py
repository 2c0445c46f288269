# SPDX-License-Identifier: Apache-2.0
"""The only source of random numbers of this package: the order of websites, and the length of pauses.

Tests seed it (``RANDOM.seed(...)``), so that a failing scenario can be played again. Nothing here is a secret.
"""

from __future__ import annotations

import random

RANDOM = random.Random()  # noqa: S311 - not for secrets
