# SPDX-License-Identifier: Apache-2.0
"""Fake services (``tests/support/fake_services.py``): the use of each option."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fake_services import FakeServiceOptions

from airflow_provider_analytics.sandbox.service import Options


@pytest.mark.repository
@pytest.mark.parametrize("option", sorted(FakeServiceOptions.model_fields.keys() - Options.model_fields.keys()))
def test_fake_service_option_is_used_by_a_test(option: str) -> None:
    used = re.compile(rf'\b{option}("\]?: |=|", )')
    paths = (path for path in Path(__file__).parents[2].rglob("*.py") if path.name != "fake_services.py")
    assert any(used.search(path.read_text(encoding="utf-8")) for path in paths)
