"""What builds a release, and what stands in it: no file is taken whose hash is not in the repository."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import release_check
from packaging.requirements import Requirement

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
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}[\s\\]*", one) for one in hashes)


def test_no_tool_is_installed_without_its_hash() -> None:
    recipes = (REPOSITORY / "Makefile").read_text().replace("\\\n", " ")
    installs = [line for line in recipes.splitlines() if re.search(r"pip (install|sync)", line)]
    tools = [line for line in installs if "--python $(PY)" not in line]
    assert len(tools) == 2
    assert all("--require-hashes" in line for line in tools)
    assert not re.search(r"pip install(?!.*--requirement).* uv\b", recipes)
