# SPDX-License-Identifier: Apache-2.0
"""A plan: the changes of all websites as a value, computed from their desired state, with guards and an approval.

``changes.py`` contains the plan, ``plan_guards.py`` decides whether it can be applied, and ``plan_markdown.py``
displays it. Pure functions on values. Imports ``desired`` and ``job``, and never ``apply``.
"""

from __future__ import annotations
