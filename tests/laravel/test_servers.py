# SPDX-License-Identifier: Apache-2.0
"""Every step of a user on the Laravel application in production: nginx, PHP-FPM, and MariaDB."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from fixture_types import Execute
from laravel_application import INSTALL, LaravelApplication, require_tools
from laravel_servers import INSTALL_MARIADB, INSTALL_NGINX, MariadbApplication, NginxApplication, fpm_program
from laravel_steps import run_steps

# Also in CI, where only the nightly workflow installs these packages.
needs_nginx = pytest.mark.skipif(not (shutil.which("nginx") and fpm_program()), reason=f"Run: {INSTALL_NGINX}")
needs_mariadb = pytest.mark.skipif(shutil.which("mariadbd") is None, reason=f"Run: {INSTALL_MARIADB}")

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "application",
    [
        pytest.param(NginxApplication(), id="nginx", marks=needs_nginx),
        pytest.param(MariadbApplication(), id="MariaDB", marks=needs_mariadb),
        pytest.param(MariadbApplication({"DB_STRINGIFY": "1"}), id="MariaDB, integers as texts", marks=needs_mariadb),
    ],
)
def test_steps_pass_in_production(
    application: LaravelApplication, execute: Execute, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_tools({"php": INSTALL})
    monkeypatch.setenv("AIRFLOW_VAR_PAGE_PASSWORD", "secret-of-a-page")
    with application:
        monkeypatch.setenv("AIRFLOW_CONN_ANALYTICS_DEFAULT", application.connection_json())
        outcome = run_steps(execute, tmp_path)
        assert {name: reason for name, reason in outcome.items() if reason} == {}
