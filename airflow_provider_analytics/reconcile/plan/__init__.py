# SPDX-License-Identifier: Apache-2.0
"""A plan: the changes as a value, with its digest, its guards, its approval, and its Markdown.

Pure functions on values. Imports ``desired`` for the tables that guards compare, and never ``apply``.
"""

from __future__ import annotations
