"""Draws line charts as SVG, for a plot that is updated while a job runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape

WIDTH, HEIGHT = 720, 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 150, 14, 34
COLORS = ("#3b76c4", "#d9722e", "#3f9a5a", "#b8443f", "#7d5fb5", "#8a6a4b", "#c76aa9", "#6d7278", "#a5a13a", "#3aa6b0")
"""The colors of the lines, in their order."""
MOST_SERIES = len(COLORS)
"""The most lines of a chart; the legend has the total."""

Point = tuple[float, float]


def line_chart(series: Mapping[str, Sequence[Point]], x_label: str, y_label: str, *, x_is_time: bool) -> str:
    """Draws a chart as SVG. ``series``: points in the order in which they are joined, by name. ``x_is_time``: x is in milliseconds since 1970."""
    shown = dict(list(series.items())[:MOST_SERIES])
    points = [point for line in shown.values() for point in line]
    parts = [_frame(x_label, y_label)]
    if points:
        low_x, high_x = _bounds([x for x, _ in points])
        low_y, high_y = _bounds([y for _, y in points])
        parts += [_y_tick(low_y + (high_y - low_y) * part / 4, part / 4) for part in range(5)]
        parts += [_x_tick(low_x + (high_x - low_x) * part / 4, part / 4, x_is_time) for part in range(5)]
        for index, (name, line) in enumerate(shown.items()):
            places = [
                (_x_place((x - low_x) / (high_x - low_x)), _y_place((y - low_y) / (high_y - low_y))) for x, y in line
            ]
            parts.append(_line(places, COLORS[index], name, index))
    if len(series) > MOST_SERIES:
        parts.append(_text(WIDTH - _RIGHT + 10, _TOP + 12 + 16 * MOST_SERIES, f"and {len(series) - MOST_SERIES} more"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" '
        f'aria-label="{escape(y_label)} by {escape(x_label)}" style="max-width:100%;height:auto;font-family:system-ui,sans-serif">'
        f"{''.join(parts)}</svg>"
    )


def _bounds(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _x_place(part: float) -> float:
    return _LEFT + part * (WIDTH - _LEFT - _RIGHT)


def _y_place(part: float) -> float:
    return HEIGHT - _BOTTOM - part * (HEIGHT - _TOP - _BOTTOM)


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="11" text-anchor="{anchor}" fill="currentColor">{escape(text)}</text>'
    )


def _frame(x_label: str, y_label: str) -> str:
    bottom, right = HEIGHT - _BOTTOM, WIDTH - _RIGHT
    axes = f'<path d="M{_LEFT},{_TOP} V{bottom} H{right}" fill="none" stroke="currentColor" opacity=".5"/>'
    return axes + _text((_LEFT + right) / 2, HEIGHT - 3, x_label, "middle") + _text(2, _TOP - 3, y_label)


def _y_tick(value: float, part: float) -> str:
    y = _y_place(part)
    line = f'<path d="M{_LEFT},{y:.1f} H{WIDTH - _RIGHT}" stroke="currentColor" opacity=".12"/>'
    return line + _text(_LEFT - 6, y + 4, f"{value:,.4g}" if abs(value) < 10_000 else f"{value:,.0f}", "end")


def _x_tick(value: float, part: float, is_time: bool) -> str:
    text = datetime.fromtimestamp(value / 1000, UTC).strftime("%H:%M:%S") if is_time else f"{value:,.6g}"
    return _text(_x_place(part), HEIGHT - _BOTTOM + 15, text, "middle")


def _line(places: Sequence[Point], color: str, name: str, index: int) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    end_x, end_y = places[-1]
    legend_y = _TOP + 12 + 16 * index
    legend_x = WIDTH - _RIGHT + 10
    return (
        f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.8"/>'
        f'<circle cx="{end_x:.1f}" cy="{end_y:.1f}" r="2.6" fill="{color}"/>'
        f'<path d="M{legend_x},{legend_y - 4} h14" stroke="{color}" stroke-width="3"/>'
        + _text(legend_x + 20, legend_y, name if len(name) <= 18 else f"{name[:17]}…")
    )
