# SPDX-License-Identifier: Apache-2.0
"""Supply chain: builds install only files whose hashes are in the repository."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import release_check
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

#: The first versions without a known denial of service by a response.
SAFE = {"urllib3": "2.6.3", "requests": "2.32.4", "idna": "3.7"}
REPOSITORY = Path(release_check.__file__).resolve().parent.parent


@pytest.mark.parametrize("tools", ["release", "docs", "uv"])
def test_every_pin_of_a_tool_has_hashes(tools: str) -> None:
    text = (REPOSITORY / "constraints" / f"{tools}.txt").read_text()
    pins = [pin for pin in re.split(r"^(?=\S)", text, flags=re.MULTILINE) if pin]
    assert len(pins) >= (1 if tools == "uv" else 20)
    for pin in pins:
        requirement, *hashes = pin.split("--hash=")
        assert re.fullmatch(r"==[^*]+", str(Requirement(requirement.replace("\\", "").strip()).specifier))
        assert hashes
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}[\s\\]*", hashe) for hashe in hashes)


def test_tools_are_installed_only_with_hashes() -> None:
    recipes = (REPOSITORY / "Makefile").read_text().replace("\\\n", " ")
    installs = [line for line in recipes.splitlines() if re.search(r"pip (install|sync)", line)]
    # The environments of the tests have pins without hashes.
    tools = [line for line in installs if "--python $(PY)" not in line and "--python .venv" not in line]
    assert len(tools) == 2
    assert all("--require-hashes" in line for line in tools)
    assert not re.search(r"pip install(?!.*--requirement).* uv\b", recipes)


def floors() -> dict[str, str]:
    """Return the lowest version of each dependency that pyproject.toml allows."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    found = {}
    for text in project["dependencies"]:
        requirement = Requirement(text)
        [lowest] = [item.version for item in requirement.specifier if item.operator == ">="]
        found[str(canonicalize_name(requirement.name))] = lowest
    return found


def test_lowest_version_of_each_dependency_is_declared_and_safe() -> None:
    assert floors().items() >= SAFE.items()


@pytest.mark.repository
def test_wire_tests_run_on_the_lowest_versions() -> None:
    pinned = dict(
        re.findall(r"^([\w.-]+)==(\S+)$", (REPOSITORY / "constraints" / "floors.txt").read_text(), re.MULTILINE)
    )
    declared = floors()
    assert {name: pinned[name] for name in SAFE} == SAFE
    assert declared.keys() <= pinned.keys()
    older = [name for name, version in declared.items() if Version(pinned[name]) < Version(version)]
    assert older == []
    assert "run: make test-floors" in (REPOSITORY / ".github" / "workflows" / "ci.yml").read_text()
