# SPDX-License-Identifier: Apache-2.0
"""docs/reference/performance.md: the table of requests per operation, and at most seven requests for a create."""

from __future__ import annotations

import pytest
import request_counts


@pytest.mark.repository
def test_documented_request_counts_are_correct() -> None:
    text = request_counts.PAGE.read_text()
    assert request_counts.filled(text) == text


def test_create_among_250_websites_takes_at_most_seven_requests() -> None:
    created = request_counts.count()["`hook.ensure_website`, `CreateWebsiteOperator`, a new domain"]
    assert (created["create"], created.total() <= 7) == (1, True)
