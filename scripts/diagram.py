# SPDX-License-Identifier: Apache-2.0
"""Draw the Mermaid flowcharts of the documents as SVG, so that the site needs no script for them.

GitHub draws the same flowcharts itself. Only the syntax that the documents use is known: ``flowchart LR``, chains such
as ``a --> b --> c``, and labels of nodes (``a["text"]``) and edges (``-->|"text"|``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise

#: Pixels: width of a character, height of a node, and space around text, between rows, and around a diagram.
CHARACTER, HEIGHT, PADDING, ROW_GAP, MARGIN = 7.6, 36, 14, 26, 24
#: Smallest space between columns.
COLUMN_GAP = 56

_NODE = r'(\w+)(?:\["([^"]*)"\])?'
_EDGE = re.compile(r'-->(?:\|"([^"]*)"\|)?')


@dataclass
class Flowchart:
    """Nodes with their labels, and edges with theirs."""

    labels: dict[str, str] = field(default_factory=dict)
    edges: dict[tuple[str, str], str] = field(default_factory=dict)


def parse(text: str) -> Flowchart:
    """Return the flowchart of a Mermaid text.

    :raises ValueError: if a line has another syntax.
    """
    chart = Flowchart()
    first, *lines = text.strip().splitlines()
    if first != "flowchart LR":
        raise ValueError(f"Not a flowchart from left to right: {first}")
    for line in lines:
        names = []
        parts = _EDGE.split(line)
        for part in parts[::2]:
            node = re.fullmatch(_NODE, part.strip())
            if node is None:
                raise ValueError(f"Unknown syntax in a flowchart: {line.strip()}")
            name, label = node.groups()
            if label or name not in chart.labels:
                chart.labels[name] = label or name
            names.append(name)
        for edge, label in zip(pairwise(names), parts[1::2], strict=True):
            chart.edges[edge] = label or ""
    return chart


def _columns(chart: Flowchart) -> dict[str, int]:
    """Return the column of each node: behind all nodes from which an edge leads to it."""
    columns = dict.fromkeys(chart.labels, 0)
    for _ in chart.labels:
        for start, end in chart.edges:
            columns[end] = max(columns[end], columns[start] + 1)
    if max(columns.values()) >= len(columns):
        raise ValueError("A flowchart with a circle cannot be drawn")
    return columns


@dataclass(frozen=True)
class Box:
    """Place of a node."""

    x: float
    y: float
    width: float

    @property
    def middle(self) -> float:
        """Height of the middle."""
        return self.y + HEIGHT / 2


def _text_width(text: str) -> float:
    return len(text) * CHARACTER


def _boxes(chart: Flowchart) -> dict[str, Box]:
    """Return the place of each node: nodes of a column are below each other, in the order of the text."""
    columns = _columns(chart)
    boxes = {}
    x: float = MARGIN
    for column in range(max(columns.values()) + 1):
        names = [name for name in chart.labels if columns[name] == column]
        width = max(_text_width(chart.labels[name]) for name in names) + 2 * PADDING
        for row, name in enumerate(names):
            boxes[name] = Box(x, MARGIN + row * (HEIGHT + ROW_GAP), width)
        labels = [_text_width(label) for (start, _), label in chart.edges.items() if columns[start] == column]
        x += width + COLUMN_GAP + max(labels, default=0)
    return boxes


def svg(text: str) -> str:
    """Return the SVG element of a Mermaid flowchart, in one line, in the colors of the page."""
    chart = parse(text)
    boxes = _boxes(chart)
    width = max(box.x + box.width for box in boxes.values()) + MARGIN
    height = max(box.y for box in boxes.values()) + HEIGHT + MARGIN
    steps = "; ".join(f"{chart.labels[start]} to {chart.labels[end]}" for start, end in chart.edges)
    name = escape(f"Flowchart: {steps or ', '.join(chart.labels.values())}")
    shapes = "".join([*_arrows(chart, boxes), *_nodes(chart, boxes)])
    return (
        f'<svg class="flowchart" role="img" aria-label="{name}" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" xmlns="http://www.w3.org/2000/svg">'
        f"{shapes}</svg>"
    )


def _arrows(chart: Flowchart, boxes: dict[str, Box]) -> Iterator[str]:
    columns = _columns(chart)
    for (start, end), label in chart.edges.items():
        x1, y1 = boxes[start].x + boxes[start].width, boxes[start].middle
        x2, y2 = boxes[end].x, boxes[end].middle
        if columns[end] - columns[start] == 1:
            line = _curve(x1, y1, x2, y2)
        else:  # beside or below the nodes between the two
            lane = y2
            if y1 == y2:
                lane = y2 + HEIGHT / 2 + ROW_GAP / 2
            line = _curve(x1, y1, x1 + COLUMN_GAP, lane) + _curve(x2 - COLUMN_GAP, lane, x2, y2).replace("M", "L")
        yield f'<path class="edge" d="{line}"/>'
        yield f'<path class="head" d="M{x2 - 8:.0f} {y2 - 4:.0f}L{x2:.0f} {y2:.0f}L{x2 - 8:.0f} {y2 + 4:.0f}z"/>'
        if label:
            yield f'<text class="edge-label" x="{x2 - 10:.0f}" y="{y2 - 6:.0f}">{escape(label)}</text>'


def _curve(x1: float, y1: float, x2: float, y2: float) -> str:
    """Return a path that starts and ends horizontally."""
    bend = x1 + COLUMN_GAP / 2
    return (
        f"M{x1:.0f} {y1:.0f}C{bend:.0f} {y1:.0f} {bend:.0f} {y2:.0f} {x1 + COLUMN_GAP:.0f} {y2:.0f}L{x2:.0f} {y2:.0f}"
    )


def _nodes(chart: Flowchart, boxes: dict[str, Box]) -> Iterator[str]:
    for name, box in boxes.items():
        yield (
            f'<rect class="node" x="{box.x:.0f}" y="{box.y:.0f}" width="{box.width:.0f}" height="{HEIGHT}" rx="4"/>'
            f'<text class="label" x="{box.x + box.width / 2:.0f}" y="{box.middle + 4.5:.0f}">'
            f"{escape(chart.labels[name])}</text>"
        )
