# SPDX-License-Identifier: Apache-2.0
"""The flowcharts of the documents as SVG for the site."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import diagram
import pytest

DOCS = Path(__file__).parents[2] / "docs"
CHARTS = [
    chart
    for page in sorted(DOCS.glob("*.md"))
    for chart in re.findall(r"```mermaid\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
]


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter() if element.tag.endswith("text")]


@pytest.mark.parametrize("chart", CHARTS)
def test_flowchart_of_each_page_is_drawn_with_all_labels_and_edges(chart: str) -> None:
    parsed = diagram.parse(chart)
    drawn = diagram.svg(chart)
    expected = [*parsed.labels.values(), *filter(None, parsed.edges.values())]
    assert sorted(texts(drawn)) == sorted(expected)
    assert drawn.count('class="edge"') == len(parsed.edges)


@pytest.mark.parametrize("chart", CHARTS)
def test_boxes_of_a_flowchart_do_not_overlap_and_edges_lead_to_the_right(chart: str) -> None:
    parsed = diagram.parse(chart)
    boxes = diagram._boxes(parsed)
    places = [(box.x, box.y) for box in boxes.values()]
    assert len(set(places)) == len(places)
    for start, end in parsed.edges:
        assert boxes[start].x + boxes[start].width < boxes[end].x


@pytest.mark.parametrize(
    ("chart", "message"),
    [
        ("flowchart TD\n  a --> b", "from left to right"),
        ("flowchart LR\n  a -.-> b", "Unknown syntax in a flowchart: a -.-> b"),
        ("flowchart LR\n  a --> b --> a", "with a circle"),
    ],
)
def test_flowchart_with_unknown_syntax_fails_the_build(chart: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        diagram.svg(chart)


def test_label_with_special_characters_is_escaped() -> None:
    assert texts(diagram.svg('flowchart LR\n  a["<b> & c"]')) == ["<b> & c"]
