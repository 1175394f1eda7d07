"""Plots as SVG that are read on light and on dark pages: text, grid and ground follow the reader's
colour scheme. One place for colours, sizes and the manner of axes."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RHEOS = "#3b7dd8"
SPARK = "#e07b39"
FLINK = "#8a8f98"
GENERATOR = "#d62f3c"
OTHERS = ("#2f9e6e", "#9a5fc4", "#c9a227")
"""For further lines, in this order."""

# Colours that stand for what follows the scheme; no plot uses them otherwise.
_INK, _GROUND, _GRID = "#010203", "#fdfcfb", "#d0d1d2"
_STYLE = """<style>
:root { --ink: #24292f; --ground: #ffffff; --grid: #d8dde3; }
@media (prefers-color-scheme: dark) { :root { --ink: #d5dbe2; --ground: #0d1117; --grid: #30363d; } }
text { fill: var(--ink); }
</style>"""


class Plots:
    """Draws into a folder, and gives the Markdown that shows the file.

    Args:
        folder: where the SVG files go.
        link: the folder as the page names it.
    """

    def __init__(self, folder: Path, link: str) -> None:
        self._folder = folder
        self._link = link

    def save(self, figure: Figure, name: str, alt: str) -> str:
        """Writes `name`.svg. `alt` says what is seen to those who do not see it."""
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / f"{name}.svg").write_text(svg(figure))
        return f"![{alt}]({self._link}/{name}.svg)"


def panels(count: int = 1, *, height: float = 3.2) -> tuple[Figure, list[Axes]]:
    """A figure with so many panels side by side; it is 8 inches wide."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(_settings()):
        figure = Figure(figsize=(8, height), layout="constrained")
        axes = [figure.add_subplot(1, count, number + 1) for number in range(count)]
        for each in axes:
            each.grid(True, axis="y")
            each.set_axisbelow(True)
            each.spines[["top", "right"]].set_visible(False)
    return figure, axes


def titled(axes: Axes, title: str, x: str, y: str) -> None:
    """Every panel has a title, and axes with their units."""
    axes.set_title(title, loc="left", fontsize=10)
    axes.set_xlabel(x)
    axes.set_ylabel(y)


def bars(axes: Axes, groups: list[str], series: dict[str, tuple[str, list[float | None]]]) -> None:
    """Bars side by side in groups: `series` maps a name to its colour and a value for each group."""
    width = 0.8 / max(len(series), 1)
    for number, (name, (colour, heights)) in enumerate(series.items()):
        at = [group + (number - (len(series) - 1) / 2) * width for group in range(len(groups))]
        axes.bar(at, [height or 0 for height in heights], width * 0.92, color=colour, label=name)
    axes.set_xticks(range(len(groups)), groups)


def level(axes: Axes, y: float, label: str, line: str = "--") -> None:
    """A line across the panel, such as a published figure."""
    axes.axhline(y, color=FLINK, linestyle=line, linewidth=1.2, label=label)


def legend(figure: Figure, columns: int = 3) -> None:
    """What has a label in any panel, each once, below them all."""
    named: dict[Any, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    figure.legend(
        named.values(),
        named.keys(),
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        fontsize=8,
        labelcolor=_INK,
    )


def svg(figure: Figure) -> str:
    """The same text for the same figure."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    FigureCanvasSVG(figure)
    file = io.StringIO()
    with rc_context(_settings()):
        figure.savefig(file, format="svg", facecolor=_GROUND, metadata={"Date": None, "Creator": None})
    text = file.getvalue()
    text = text[text.index("<svg") :]
    for colour, name in ((_INK, "ink"), (_GROUND, "ground"), (_GRID, "grid")):
        text = text.replace(colour, f"var(--{name})")
    text = re.sub(r"(<svg[^>]*>)", lambda found: f"{found[1]}\n{_STYLE}", text, count=1)
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def _settings() -> dict[str, Any]:
    inked = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    return {
        **dict.fromkeys(inked, _INK),
        "axes.titlecolor": _INK,
        "axes.facecolor": _GROUND,
        "grid.color": _GRID,
        "grid.linewidth": 0.6,
        "font.size": 9,
        "font.sans-serif": ["DejaVu Sans"],
        "lines.linewidth": 1.8,
        "lines.markersize": 4,
        "svg.fonttype": "none",
        "svg.hashsalt": "rheos",
    }
