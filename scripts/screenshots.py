"""Put the best of the screenshots that the browser tests took into docs/images.

``make screenshots`` takes them first.
"""

from __future__ import annotations

import sys

from local_airflow import CHECKOUT
from PIL import Image

TAKEN = CHECKOUT / "build" / "screenshots"
IMAGES = CHECKOUT / "docs" / "images"
#: Name in the documents to the name that the tests give it.
PICTURES = {
    "approval": "approval",
    "connection": "connection",
    "connection_tested": "test_analytics_default",
    "connection_wrong_key": "test_wrong_key",
    "log_refused": "log_shrunk_folded",
    "report": "report",
    "trigger": "trigger_nightly_website_snapshot",
}
#: Enough for a web interface, and half of the size of a picture in all colours.
COLOURS = 256


def main(version: str) -> None:
    for name, taken in PICTURES.items():
        with Image.open(TAKEN / version / f"{taken}.png") as picture:
            reduced = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
            reduced.save(IMAGES / f"{name}.png", optimize=True)
        sys.stdout.write(f"docs/images/{name}.png  {(IMAGES / f'{name}.png').stat().st_size / 1000:,.0f} kB\n")


if __name__ == "__main__":
    main(sys.argv[1])
