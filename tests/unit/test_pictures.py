# SPDX-License-Identifier: Apache-2.0
"""Pictures of the documents (``make screenshots``, ``make bench``): all are used, and none is large."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from screenshots import IMAGES, PICTURES, RECORDINGS


@pytest.mark.repository
def test_documents_contain_the_generated_pictures_and_these_are_small() -> None:
    root = Path(__file__).parents[2]
    texts = [path.read_text("utf-8") for path in (root / "README.md", *(root / "docs").rglob("*.md"))]
    shown = {picture for text in texts for picture in re.findall(r"!\[.+\]\([^)]*?([\w-]+\.(?:png|gif))\)", text)}
    pictures = [path for path in IMAGES.iterdir() if path.suffix != ".txt"]
    assert shown == {path.name for path in pictures}
    assert {path.stem for path in pictures} == {path.stem for path in IMAGES.glob("*.txt")}
    assert shown >= {*(f"{name}.png" for name in PICTURES), *(f"{name}.gif" for name in RECORDINGS)}
    limits = {".png": 150_000, ".gif": 2_000_000}
    assert [path.name for path in pictures if path.stat().st_size > limits[path.suffix]] == []
