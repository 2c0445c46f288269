# SPDX-License-Identifier: Apache-2.0
"""Memory of a snapshot: it does not grow with the list (``snapshots/take.py``)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TWO_NIGHTS = """
import sys
from pathlib import Path
from types import SimpleNamespace
from shelf import NIGHT, Shelf

base, file_format, count = sys.argv[1], sys.argv[2], int(sys.argv[3])

class Listing:
    proof = None

    def __iter__(self):
        for number in range(count, 0, -1):
            yield {"id": number, "domain": f"site-{number}.example.com", "privacy": number % 3}
        self.proof = SimpleNamespace(websites=count, method="one page", total=count, pages=1)

for night in range(2):
    Shelf(base).take(Listing, night * NIGHT, format=file_format)
# The peak of this program alone: what getrusage returns begins with that of the process that started it.
print(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
"""


def kilobytes(base: Path, file_format: str, count: int) -> int:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "support")}
    command = [sys.executable, "-c", TWO_NIGHTS, str(base / str(count)), file_format, str(count)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout)


@pytest.mark.slow  # a hundred thousand websites, twice
@pytest.mark.parametrize(("file_format", "growth"), [("jsonl", 1.1), ("csv", 1.1), ("parquet", 1.5)])
@pytest.mark.chosen(1)
@pytest.mark.long
def test_ten_times_as_many_websites_take_the_same_memory(tmp_path: Path, file_format: str, growth: float) -> None:
    assert kilobytes(tmp_path, file_format, 100_000) < growth * kilobytes(tmp_path, file_format, 10_000)
