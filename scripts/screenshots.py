# SPDX-License-Identifier: Apache-2.0
"""Put the best of the screenshots that the browser tests took into docs/images, each with a file of its words.

``make screenshots`` takes them first. tests/integration/docs/test_words_of_pictures.py compares words and code.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from local_airflow import CHECKOUT
from PIL import Image

TAKEN = CHECKOUT / "build" / "screenshots"
IMAGES = CHECKOUT / "docs" / "images"
#: Name in the documents to the name that the tests give it.
PICTURES = {
    "connection": "connection",
    "connection_tested": "test_analytics_default",
    "connection_wrong_key": "test_wrong_key",
    "log_blocked": "log_blocked",
    "report": "report",
    "trigger": "trigger_choices",
}
#: Part of a picture to keep (left, top, right, bottom): GitHub shows a README at about 840 pixels, so that the text of
#: a whole screen is too small.
PARTS = {"log_blocked": (356, 60, 1388, 524)}
#: The same of a recording, in its order, with the seconds that each is shown.
RECORDINGS = {
    "approve_and_apply": {
        "approve_1_planned": 4.0,
        "approve_2_asked": 2.5,
        "approval": 4.0,
        "approve_3_applied": 5.0,
    }
}
#: Characters of a line of words.
LINE = 120
#: Enough for a web interface, and half of the size of a picture in all colours.
COLOURS = 256


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version", help="version of Airflow that the pictures show")
    version = parser.parse_args().version
    for name, shown in RECORDINGS.items():
        frames = [reduced(TAKEN / version / f"{taken}.png") for taken in shown]
        times = [round(1000 * seconds) for seconds in shown.values()]
        put(f"{name}.gif", frames[0], save_all=True, append_images=frames[1:], duration=times, loop=0)
        put_words(name, version, shown)
    for name, taken in PICTURES.items():
        put(f"{name}.png", reduced(TAKEN / version / f"{taken}.png", PARTS.get(name)))
        put_words(name, version, [taken])


def reduced(path: Path, part: tuple[int, int, int, int] | None = None) -> Image.Image:
    with Image.open(path) as picture:
        return picture.crop(part).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)


def put(name: str, picture: Image.Image, **options: Any) -> None:
    picture.save(IMAGES / name, optimize=True, **options)
    sys.stdout.write(f"docs/images/{name}  {(IMAGES / name).stat().st_size / 1000:,.0f} kB\n")


def put_words(name: str, version: str, taken: Iterable[str]) -> None:
    """Write the visible words of a picture, or of each picture of a recording, in lines of a fixed length."""
    texts = [(TAKEN / version / f"{picture}.txt").read_text(encoding="utf-8") for picture in taken]
    paragraphs = [textwrap.fill(text, LINE, break_long_words=False, break_on_hyphens=False) for text in texts]
    (IMAGES / f"{name}.txt").write_text("\n\n".join(paragraphs) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
