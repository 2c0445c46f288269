# SPDX-License-Identifier: Apache-2.0
"""A plan: the changes of all websites as a value, computed from their desired state, with guards and an approval.

``changes.py`` computes the changes, ``plan.py`` has the values, ``plan_guards.py`` the guards, ``approval.py`` compares
a plan with the approved one, and ``plan_markdown.py`` displays it. Pure functions on values. Imports ``desired``, and
never ``apply``.
"""

from __future__ import annotations
