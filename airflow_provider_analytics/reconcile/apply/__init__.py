# SPDX-License-Identifier: Apache-2.0
"""Apply a plan: some websites alone, then the others, and read all of them back.

Imports ``plan``. ``sending.py`` is the only module that sends the changes of a plan.
"""

from __future__ import annotations
