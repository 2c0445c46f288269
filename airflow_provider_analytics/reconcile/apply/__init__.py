# SPDX-License-Identifier: Apache-2.0
"""Apply a plan: try some websites first, then change the others, and read all of them back.

Imports ``plan``. ``sending.py`` is the only module that sends the changes of a plan.
"""

from __future__ import annotations
