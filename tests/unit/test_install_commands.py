# SPDX-License-Identifier: Apache-2.0
"""Commands of the documents that install packages: pip finds the versions at once, and the package is the right one."""

from __future__ import annotations

import re

import pytest
from install_commands import DOCUMENTS, install_commands

pytestmark = pytest.mark.repository


@pytest.mark.parametrize("command", install_commands())
def test_install_command_names_airflow_and_constraints(command: str) -> None:
    """Without both, an older pip downloads hundreds of files and finds no solution within ten minutes."""
    airflow = re.search(r'"apache-airflow==(\S+)"', command)
    assert airflow
    assert re.search(rf"--constraint \S*constraints/airflow-{re.escape(airflow[1])}\.txt$", command)


def test_install_commands_never_name_the_unregistered_package() -> None:
    text = "\n".join(document.read_text(encoding="utf-8") for document in DOCUMENTS)
    lines = [line for line in text.splitlines() if "pip install" in line]
    assert len(lines) >= len(install_commands()) > 3
    by_name = re.compile(r"""(?:^|[\s'"])airflow-provider-analytics\b(?!/)""")
    assert [line for line in lines if by_name.search(line)] == []
