# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

__version__ = "1.0.0rc1"
