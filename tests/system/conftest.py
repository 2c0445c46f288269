# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the system tests: shells, programs, wheels, and a browser."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from airflow_versions import AIRFLOW_VERSION
from browser import Screen, browser
from release_check import built_wheel

#: If it is set, a test that cannot run for lack of a tool fails.
NOTHING_IS_SKIPPED = bool(os.environ.get("CI"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.system)


@pytest.fixture(scope="session")
def checkout() -> Path:
    return Path(__file__).parents[2]


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """The environment of a person's shell: without the variables of these tests' Airflow and of make."""
    ours = ("AIRFLOW_", "ANALYTICS_", "MAKE", "MFLAGS", "PYTEST_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def tool(name: str, install: str, path: str | None = None) -> str:
    """Return the path of a program; if it is missing, skip the test, or fail in CI.

    :param install: the command that installs it.
    """
    found = shutil.which(name, path=path)
    if found is None:
        message = f"{name} is not there. Run: {install}"
        if NOTHING_IS_SKIPPED:
            pytest.fail(message)
        pytest.skip(message)
    return found


@pytest.fixture(scope="session")
def uv(checkout: Path) -> str:
    return tool("uv", "make install", f"{checkout / '.tools' / 'bin'}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture(scope="session")
def recipes_python(checkout: Path) -> str:
    """The Python with the packages of the recipes of docs/loading.md."""
    return tool("python", "make .tools/recipes/.installed", str(checkout / ".tools" / "recipes" / "bin"))


@pytest.fixture(scope="session")
def postgresql() -> None:
    """Debian stores the programs of PostgreSQL in a folder per version."""
    places = [*map(str, Path("/usr/lib/postgresql").glob("*/bin")), os.environ["PATH"]]
    tool("initdb", "apt-get install postgresql", os.pathsep.join(places))


@pytest.fixture(scope="session")
def wheel(checkout: Path, uv: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, as built by ``make dist``, or built now."""
    if wheel := built_wheel():
        return wheel
    directory = tmp_path_factory.mktemp("dist")
    subprocess.run([uv, "build", "--quiet", "--wheel", "--out-dir", str(directory), str(checkout)], check=True)
    [built] = directory.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def screen(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Screen]:
    """A browser, and the folder of its pictures."""
    programs = tool("chromium", "apt-get install chromium"), tool("chromedriver", "apt-get install chromium-driver")
    pictures = checkout / "build" / "screenshots" / AIRFLOW_VERSION
    with browser(*programs, tmp_path_factory.mktemp("chromium"), pictures) as screen:
        yield screen


@pytest.fixture(scope="module")
def in_pictures() -> Iterator[Callable[[str], Path]]:
    """Make folders whose paths are in pictures of the documents: short, and without the name of the user."""
    with ExitStack() as stack:
        yield lambda name: Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=f"{name}-")))
