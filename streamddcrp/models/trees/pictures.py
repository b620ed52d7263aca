"""Pictures of trees: topics with their words, components as images, growth over a stream."""

from dataclasses import dataclass
from textwrap import wrap
from typing import Any

import numpy as np

from streamddcrp.plots.figures import matplotlib, pyplot
from streamddcrp.plots.palette import COLOURS
from streamddcrp.typing import ArrayLike

_GREY, _INK, _FAINT = "#777777", "#222222", "#888888"
_ROW = 0.27  # inches for a leaf
_BEND = 0.8  # inches in which bands turn to the next level
_GAP = 5  # points between a number and words
_SIZE, _BOLD = 9.0, 8.5  # point sizes of words: of leaves, and above
_LETTERS = 30  # on a line of a node above the leaves
_WORDS = 7  # of a leaf
_MOST_LEAVES = 60


@dataclass(slots=True)
class _Placed:
    """A node at column ``level`` (0 at the root) and row ``y``, the leaves one below the other."""

    node: dict[str, Any]
    level: int
    parent: int
    branch: int
    y: float = 0.0
    rows: int = 1

    @property
    def weight(self) -> float:
        """Documents or points through the node."""
        return float(self.node["weight"])

    @property
    def colour(self) -> str:
        return _GREY if self.branch < 0 else COLOURS[self.branch % len(COLOURS)]


def _nodes(node: dict[str, Any]) -> list[dict[str, Any]]:
    return [node, *(below for child in node["children"] for below in _nodes(child))]


def _place(tree: dict[str, Any], kept: set[int]) -> list[_Placed]:
    """Position the kept leaves and the nodes above them; parents come first."""
    placed: list[_Placed] = []

    def walk(node: dict[str, Any], level: int, parent: int, branch: int, top: int) -> int:
        """Position a node from row ``top`` on; return the rows it takes."""
        if not node["children"]:
            if int(node["id"]) not in kept:
                return 0
            placed.append(_Placed(node, level, parent, branch, float(top)))
            return 1
        me, rows = len(placed), 0
        placed.append(_Placed(node, level, parent, branch))
        below = sorted(node["children"], key=lambda child: -float(child["weight"]))
        for number, child in enumerate(below):
            rows += walk(child, level + 1, me, number if level == 0 else branch, top + rows)
        if not rows:
            placed.pop()  # all its leaves were left out
            return 0
        own = [p for p in placed[me + 1 :] if p.parent == me]
        placed[me].y, placed[me].rows = 0.5 * (own[0].y + own[-1].y), rows
        return rows

    walk(tree, 0, -1, -1, 0)
    return placed


def _count(size: float) -> str:
    return f"{size:,.0f}" if size >= 9.95 else f"{size:.1f}".removesuffix(".0")


def _links(ax: Any, placed: list[_Placed], x: list[float], bend: float, *, through: bool) -> None:
    """Draw bands to children, as wide as the root of their sizes."""
    from matplotlib.patches import PathPatch  # noqa: PLC0415
    from matplotlib.path import Path  # noqa: PLC0415

    largest = placed[0].weight or 1.0
    for p in placed[1:]:
        above = placed[p.parent]
        b, turn = (x[p.level], p.y), x[p.level] - bend
        middle = 0.5 * (turn + b[0])
        first = (x[above.level] if through else turn, above.y)
        curve = Path(
            [first, (turn, above.y), (middle, above.y), (middle, b[1]), b],
            [Path.MOVETO, Path.LINETO, Path.CURVE4, Path.CURVE4, Path.CURVE4],
        )
        width = 0.8 + 7.0 * float(np.sqrt(p.weight / largest))
        look = {"ec": p.colour, "lw": width, "alpha": 0.35, "capstyle": "butt", "zorder": 1}
        ax.add_patch(PathPatch(curve, fill=False, **look))


def plot_topic_tree(tree: dict[str, Any], ax: Any = None) -> Any:
    """Draw a tree of topics, from ``tree()`` of a model, from left to right; return the axes.

    On ``ax`` one inch is a unit across, a leaf a unit down; without it a figure of fitting size is
    created. A leaf has seven words, other nodes as many as fit. Circle areas show the number of
    documents, written beside them. If there are more than 60 leaves, the largest are drawn.
    """
    plt = pyplot()
    nodes = _nodes(tree)
    leaves = sorted((-float(p["weight"]), int(p["id"])) for p in nodes if not p["children"])
    placed = _place(tree, {number for _, number in leaves[:_MOST_LEAVES]})
    depth = max(p.level for p in placed)
    n_rows = placed[0].rows
    texts = [_text(p, leaf=p.level == depth) for p in placed]
    largest = placed[0].weight or 1.0
    radii = [3.0 + 13.0 * float(np.sqrt(p.weight / largest)) for p in placed]
    wide = np.zeros(depth + 1)  # width of a level in inches, that of its longest text
    for p, text, radius in zip(placed, texts, radii, strict=True):
        letters = _length(text, _SIZE if p.level == depth else _BOLD, bold=p.level < depth)
        own = 0.5 * radius / 72 + 0.06 + _length(_count(p.weight), 8.0) + _GAP / 72 + letters
        wide[p.level] = max(wide[p.level], own)
    x = (0.3 + np.concatenate([[0.0], np.cumsum(1.05 * wide[:-1] + 0.15 + _BEND)])).tolist()
    width = max(x[-1] + float(wide[-1]) + 0.1, _length(_title(tree, 0), 10.0) + 3.0)
    if ax is None:
        height = _ROW * max(n_rows, 5) + 0.6
        _, ax = plt.subplots(figsize=(width, height), layout="constrained")
    ax.set_xlim(0.0, width)
    ax.set_ylim(max(n_rows, 5) - 0.3, -1.4)
    ax.axis("off")
    _links(ax, placed, x, _BEND, through=False)
    for p, text, radius in zip(placed, texts, radii, strict=True):
        leaf = p.level == depth
        ax.plot(
            x[p.level], p.y, "o", markersize=radius, color=p.colour, markeredgecolor="white",
            markeredgewidth=0.8, zorder=3, clip_on=False,
        )  # fmt: skip
        at = x[p.level] + 0.5 * radius / 72 + 0.06
        size = ax.annotate(
            _count(p.weight), (at, p.y), fontsize=8, color=_FAINT, va="center_baseline", zorder=4
        )
        ax.annotate(
            text, (1.0, 0.5), xycoords=size, xytext=(_GAP, 0), textcoords="offset points",
            fontsize=_SIZE if leaf else _BOLD, color=_INK, va="center", linespacing=1.1, zorder=4,
            fontweight="normal" if leaf else "bold", parse_math=False, annotation_clip=False,
        )  # fmt: skip
    left_out = len(leaves) - sum(not p.node["children"] for p in placed)
    ax.annotate(_title(tree, left_out), (0.1, -1.0), fontsize=10, color=_INK)
    return ax


def _text(p: _Placed, *, leaf: bool) -> str:
    """Return the words of a topic, in as many lines as fit."""
    words = [str(word)[:_LETTERS] for word, _ in p.node["words"]]
    if leaf:
        return " ".join(words[:_WORDS]) or "(no words of its own)"
    lines = wrap(" ".join(words), _LETTERS, break_on_hyphens=False)
    return "\n".join(lines[: max(1, min(4, int(p.rows * _ROW / 0.145)))])


def _length(text: str, size: float, *, bold: bool = False) -> float:
    """Return the width in inches of a text's longest line."""
    path, fonts = matplotlib("textpath").TextPath, matplotlib("font_manager").FontProperties
    font = fonts(weight="bold" if bold else "normal")
    lines = [path((0, 0), line, size=size, prop=font) for line in text.split("\n") if line.strip()]
    return max((float(line.get_extents().x1) for line in lines), default=0.0) / 72


def _title(tree: dict[str, Any], left_out: int) -> str:
    n = len(_nodes(tree))
    title = f"{n:,} topic{'' if n == 1 else 's'} of {_count(float(tree['weight']))} documents"
    title += " (numbers: documents)"
    return title + f"; the {left_out:,} smallest leaves are not drawn" * bool(left_out)


def plot_component_tree(
    tree: dict[str, Any], ax: Any = None, *, shape: tuple[int, int] | None = None
) -> Any:
    """Draw a tree of components as images, from the mean to the leaves; return the axes.

    ``tree`` is from ``tree()`` of a model. Without ``ax`` a figure of fitting size is created.
    ``shape``: height and width of the images; default: a square if possible, else a row of D
    pixels. Each image has its own scale, and its sign is arbitrary: a row is the mean plus a sum of
    the images on a path, each times a coefficient of the row.
    """
    plt = pyplot()
    vectors = np.asarray(tree["vector"], dtype=np.float64)
    side = int(np.sqrt(vectors.size))
    shape = shape or ((side, side) if side * side == vectors.size else (1, vectors.size))
    placed = _place(tree, {int(node["id"]) for node in _nodes(tree)})
    depth = max(p.level for p in placed)
    n_rows = max(placed[0].rows, 2)
    image, column, row = 0.74, 1.55, 0.86
    tall = image * min(1.0, shape[0] / shape[1])
    mean = "mean" in tree
    x = [0.5 + column * (level + mean) for level in range(depth + 1)]
    width = x[-1] + 1.1
    if ax is None:
        _, ax = plt.subplots(figsize=(width, row * n_rows + 0.55), layout="constrained")
    ax.set_xlim(0.0, width)
    ax.set_ylim(n_rows - 0.45, -0.5 - 0.5 / row)
    ax.axis("off")
    _links(ax, placed, x, 0.9, through=True)

    def show(values: ArrayLike, at: float, y: float, colour: str, name: str, **how: Any) -> None:
        box = (at - 0.5 * image, at + 0.5 * image)
        half = 0.5 * tall / row
        ax.imshow(
            np.reshape(values, shape), extent=(*box, y + half, y - half), aspect="auto",
            interpolation="nearest", zorder=2, **how,
        )  # fmt: skip
        frame = {"fill": False, "ec": colour, "lw": 1.6, "zorder": 3}
        ax.add_patch(plt.Rectangle((box[0], y - half), image, 2 * half, **frame))
        ax.annotate(
            name, (box[1], y), xytext=(3, 5), textcoords="offset points", fontsize=8,
            color=_FAINT, va="bottom", zorder=4,
        )  # fmt: skip

    if mean:
        show(tree["mean"], 0.5, placed[0].y, _INK, "", cmap="Greys")
        ax.annotate("mean", (0.5, -0.5 - 0.3 / row), ha="center", fontsize=9, color=_INK)
        ax.annotate(
            "+", (0.5 * (0.5 + x[0]), placed[0].y), ha="center", va="center", fontsize=12,
            color=_INK,
        )  # fmt: skip
    for level, at in enumerate(x):
        ax.annotate(
            f"level {level + 1}", (at, -0.5 - 0.3 / row), ha="center", fontsize=9, color=_INK
        )
    for p in placed:
        v = np.asarray(p.node["vector"], dtype=np.float64)
        top = float(np.abs(v).max()) or 1.0
        show(v, x[p.level], p.y, p.colour, _count(p.weight), cmap="RdBu_r", vmin=-top, vmax=top)
    ax.annotate(
        "A row is the mean plus a number times each image on its path;\n"
        "red and blue are opposite. Beside an image: rows that pass it.",
        (0.0, 0.0), xycoords="axes fraction", va="top", fontsize=8, color=_FAINT,
    )  # fmt: skip
    return ax


def plot_growth(growth: Any, ax: Any = None) -> Any:
    """Draw a tree's growth: all nodes born so far, as alive, merged and pruned.

    ``growth`` is the table of that name of a model: ``row`` (rows learned so far), ``n_nodes``, and
    ``merges`` and ``prunes`` since the beginning. Returns the axes.
    """
    plt = pyplot()
    if ax is None:
        _, ax = plt.subplots(figsize=(8, 3.8), layout="constrained")
    row, *parts = (
        np.append(first, np.asarray(growth[name].to_pylist(), dtype=np.float64))
        for name, first in (("row", 0), ("n_nodes", 1), ("merges", 0), ("prunes", 0))
    )
    names = ("alive", "merged into another", "pruned")
    colours = (COLOURS[0], COLOURS[1], "#D0D0D0")
    ax.stackplot(row, *parts, colors=colours, labels=names, linewidth=0)
    ax.plot(row, parts[0], color="white", linewidth=1.2)
    top = np.cumsum([part[-1] for part in parts])
    least = 0.05 * float(top[-1])
    for name, end, part in zip(names, top, parts, strict=True):
        if part[-1] >= least:  # the others are in the legend
            ax.annotate(
                f"{part[-1]:,.0f} {name}", (row[-1], end - 0.5 * part[-1]), xytext=(6, 0),
                textcoords="offset points", fontsize=9, va="center", annotation_clip=False,
            )  # fmt: skip
    ax.set_xlim(0, max(float(row[-1]), 1.0))
    ax.set_ylim(0)
    ax.set_xlabel("documents or rows learned")
    ax.set_ylabel("nodes born so far")
    ax.legend(frameon=False, loc="upper left", reverse=True)
    ax.spines[["top", "right"]].set_visible(False)
    return ax
