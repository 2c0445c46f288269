"""The pictures of the documents, by ``make screenshots`` and ``make bench``: all of them shown, none of them large."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from screenshots import IMAGES, PICTURES, RECORDINGS

pytestmark = pytest.mark.repository

ROOT = Path(__file__).parents[2]


#: Before each picture of README.md, which is shown as the page of the package as well.
BASE = "https://raw.githubusercontent.com/airflow-provider-analytics/airflow-provider-analytics/main/"


def test_the_documents_show_the_pictures_that_are_made() -> None:
    shown = {
        (text.parent / picture.removeprefix(BASE)).resolve()
        for text in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
        for alternative, picture in re.findall(r"!\[(.*)\]\((.*?\.(?:png|gif))\)", text.read_text("utf-8"))
        if alternative
    }
    assert (
        shown
        == set(IMAGES.iterdir())
        >= {
            *(IMAGES / f"{name}.png" for name in PICTURES),
            *(IMAGES / f"{name}.gif" for name in RECORDINGS),
        }
    )


def test_the_pictures_are_small() -> None:
    large = {picture.name for picture in IMAGES.glob("*.png") if picture.stat().st_size > 150_000}
    large |= {recording.name for recording in IMAGES.glob("*.gif") if recording.stat().st_size > 2_000_000}
    assert large == set()
