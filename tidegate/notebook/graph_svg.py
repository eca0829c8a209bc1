"""Draws a graph of operators or vertices as SVG: layers from left to right, each node right of its inputs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 180, 54
"""The size of a node, in pixels."""
_GAP_X, _GAP_Y, _MARGIN = 70, 18, 8
_SIGNS = 25
"""The most characters of a node's title."""


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """A node of the drawing. ``lines``: below the title. ``color``: of its border, in CSS."""

    key: str
    title: str
    lines: tuple[str, ...] = ()
    color: str = "#8a8f98"


@dataclass(frozen=True, slots=True)
class DrawnEdge:
    """An edge of the drawing, from the node ``source`` to the node ``target``. ``label``: above it."""

    source: str
    target: str
    label: str = ""


def graph_svg(nodes: Sequence[DrawnNode], edges: Sequence[DrawnEdge]) -> str:
    """Draws a graph as SVG, which is scrolled where it is wider than the page. Edges of missing nodes are left out; the nodes of a cycle are placed
    where they fit."""
    places = _places([node.key for node in nodes], edges)
    width = max((x for x, _ in places.values()), default=0) + WIDTH + _MARGIN
    height = max((y for _, y in places.values()), default=0) + HEIGHT + _MARGIN
    drawn = [_edge(edge, places) for edge in edges if edge.source in places and edge.target in places]
    drawn += [_node(node, *places[node.key]) for node in nodes]
    return (
        '<div style="overflow-x:auto" tabindex="0" role="group" aria-label="graph">'
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="graph of {len(nodes)} nodes" style="font-family:system-ui,sans-serif">{"".join(drawn)}</svg></div>'
    )


def _places(keys: Sequence[str], edges: Sequence[DrawnEdge]) -> dict[str, tuple[int, int]]:
    """Returns the upper left corner of each node."""
    known = set(keys)
    inputs: dict[str, list[str]] = defaultdict(list)
    for edge in edges:
        if {edge.source, edge.target} <= known:
            inputs[edge.target].append(edge.source)
    layers: dict[str, int] = {}
    waiting = list(keys)
    while waiting:
        ready = [key for key in waiting if all(source in layers for source in inputs[key])]
        for key in ready or waiting:
            layers[key] = 1 + max((layers.get(source, -1) for source in inputs[key]), default=-1)
        waiting = [key for key in waiting if key not in layers]
    rows: dict[str, float] = {}
    places: dict[str, tuple[int, int]] = {}
    for layer in sorted(set(layers.values())):
        here = [key for key in keys if layers[key] == layer]
        here.sort(key=lambda key: sum(rows.get(source, 0) for source in inputs[key]) / (len(inputs[key]) or 1))
        for row, key in enumerate(here):
            rows[key] = row
            places[key] = (_MARGIN + layer * (WIDTH + _GAP_X), _MARGIN + row * (HEIGHT + _GAP_Y))
    return places


def _node(node: DrawnNode, x: int, y: int) -> str:
    title = node.title if len(node.title) <= _SIGNS else f"{node.title[: _SIGNS - 1]}…"
    lines = "".join(
        f'<text x="{x + 9}" y="{y + 34 + 13 * index}" font-size="10.5" fill="currentColor" opacity=".7">{escape(line[:32])}</text>'
        for index, line in enumerate(node.lines[:2])
    )
    return (
        f"<g><title>{escape(node.title)}</title>"
        f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="6" fill="{node.color}" fill-opacity=".08" stroke="{node.color}"/>'
        f'<text x="{x + 9}" y="{y + 19}" font-size="12" fill="currentColor">{escape(title)}</text>{lines}</g>'
    )


def _edge(edge: DrawnEdge, places: dict[str, tuple[int, int]]) -> str:
    (x, y), (end_x, end_y) = places[edge.source], places[edge.target]
    x, y, end_y = x + WIDTH, y + HEIGHT // 2, end_y + HEIGHT // 2
    half = (x + end_x) // 2
    label = (
        f'<text x="{half}" y="{(y + end_y) // 2 - 5}" font-size="10" text-anchor="middle" fill="currentColor" opacity=".65">{escape(edge.label)}</text>'
        if edge.label
        else ""
    )
    line = f'<path d="M{x},{y} C{half},{y} {half},{end_y} {end_x - 6},{end_y}" fill="none" stroke="#8a8f98"/>'
    head = f'<path d="M{end_x - 7},{end_y - 4} L{end_x},{end_y} L{end_x - 7},{end_y + 4} z" fill="#8a8f98"/>'
    return line + head + label
