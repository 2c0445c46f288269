# SPDX-License-Identifier: Apache-2.0
"""The table of requests per operation is what is sent, and a create takes seven at most."""

from __future__ import annotations

import pytest
import request_counts


@pytest.mark.repository
def test_the_table_of_requests_is_true() -> None:
    text = request_counts.PAGE.read_text()
    assert request_counts.filled(text) == text


def test_a_create_among_250_websites_takes_seven_requests_at_most() -> None:
    created = request_counts.count()["`hook.ensure_website`, `CreateWebsiteOperator`, a new domain"]
    assert (created["create"], created.total() <= 7) == (1, True)
