"""Table 2 of Wang and Blei (2009) in words and pictures."""

from collections.abc import Iterator
from pathlib import Path

from streamddcrp.models.trees.pictures import plot_component_tree
from streamddcrp.plots.figures import STYLE, matplotlib
from streamddcrp.plots.palette import COLOURS

from .ncrp_digits_numbers import PUBLISHED, Digits, Fit, digits, fits, pca_error

PICTURED = 3  # depth of the tree that is drawn
TITLE = """\
Digits rebuilt from a path of L components (Wang and Blei 2009, Table 2): mean squared error of an
image, 64 pixels of 0 to 16. PCA has L components for all images, a tree L for each. Trees have the
default priors of the model, whose scales come from the images, and at most as many nodes as the
published ones; the paper's priors are not printed. Batch: sweeps until the bound rests."""


def run(folder: Path, seed: int, small: bool = False) -> Iterator[str]:
    """Fit, and yield what was found, line by line; the table and figures go to the folder."""
    data = digits(small)
    yield TITLE
    yield f"{data.source}: {len(data.train):,} images learned, {len(data.test):,} for the test.\n"
    if small:
        yield "The published errors are of optdigits: here are no rows to compare them with.\n"
    lines = ["| L | method | nodes | train | test | CPU s |", "| --- " * 6 + "|"]
    yield from lines
    done: list[Fit] = []
    for depth, (nodes, train, test) in PUBLISHED.items():
        rows = [_row(depth, "PCA", depth, *pca_error(data, depth))]
        if data.source == "optdigits":
            rows.append(_row(depth, "published", nodes, train, test))
        for fit in fits(data, seed, (depth,)):
            done.append(fit)
            rows.append(_row(depth, fit.method, fit.nodes, fit.train, fit.test, fit.seconds))
        yield from rows
        lines += rows
    table = folder / "ncrp-digits.md"
    table.write_text("\n".join([TITLE, "", *lines, ""]), encoding="utf-8")
    made = [table, _draw_errors(data, done, folder), _draw_tree(done, folder)]
    yield "\nWritten: " + ", ".join(map(str, made))


def _row(
    depth: int, method: str, nodes: int, train: float, test: float, seconds: float | None = None
) -> str:
    spent = "" if seconds is None else f"{seconds:.1f}"
    return f"| {depth} | {method} | {nodes} | {train:.1f} | {test:.1f} | {spent} |"


def _draw_errors(data: Digits, done: list[Fit], folder: Path) -> Path:
    plt = matplotlib("pyplot")
    depths = list(PUBLISHED)
    curves = {"PCA, L components": [pca_error(data, depth)[1] for depth in depths]}
    if data.source == "optdigits":
        curves["published tree"] = [PUBLISHED[depth][2] for depth in depths]
    for method in dict.fromkeys(fit.method for fit in done):
        curves[f"tree, {method}"] = [fit.test for fit in done if fit.method == method]
    with plt.rc_context(STYLE):
        figure, ax = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
        for (name, values), colour in zip(curves.items(), COLOURS, strict=False):
            ax.plot(depths, values, "o-", color=colour, label=name)
        ax.set_xticks(depths)
        ax.set_xlabel("components of an image, L")
        ax.set_ylabel("mean squared error, test images")
        ax.set_ylim(0)
        ax.legend(frameon=False)
        path = folder / "ncrp-digits-errors.png"
        figure.savefig(path, dpi=150)
        plt.close(figure)
    return path


def _draw_tree(done: list[Fit], folder: Path) -> Path:
    fit = next(fit for fit in done if fit.depth == PICTURED and fit.method == "batch")
    ax = plot_component_tree(fit.model.tree())
    path = folder / "ncrp-digits-tree.png"
    ax.figure.savefig(path, dpi=150)
    matplotlib("pyplot").close(ax.figure)
    return path
