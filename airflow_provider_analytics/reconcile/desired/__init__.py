# SPDX-License-Identifier: Apache-2.0
"""The desired state of websites: from websites files, arguments of operators, and the tables of managed lists.

Pure functions on values; only the sources read the websites of the service. Imports neither ``plan`` nor ``apply``.
"""

from __future__ import annotations
