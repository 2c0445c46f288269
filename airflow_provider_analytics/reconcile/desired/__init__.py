# SPDX-License-Identifier: Apache-2.0
"""The desired state of websites: from websites files, arguments of operators, and the tables of managed lists.

Pure functions on values. Imports ``plan/plan.py`` for the values of changes, and never ``apply``.
"""

from __future__ import annotations
