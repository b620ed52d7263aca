"""The figures of the experiment ``ddcrp-language``."""

from pathlib import Path
from typing import Any

import numpy as np

from streamddcrp.plots.figures import INK, STYLE, matplotlib
from streamddcrp.plots.palette import COLOURS

from .ddcrp_language_numbers import FAMILIES, Growth, Numbers
from .ddcrp_language_words import parameter_of


def draw_all(numbers: Numbers, folder: Path) -> list[Path]:
    """Draw the figures into a folder, as PNG; return their paths."""
    made = []
    with matplotlib("style").context(["default", STYLE]):
        for name, draw in (
            ("bayes-factors", _bayes_factors),
            ("tables", _tables),
            ("agreement", _agreement),
        ):
            path = folder / f"ddcrp-language-{name}.png"
            draw(numbers).savefig(path, dpi=150, bbox_inches="tight", pad_inches=0.15)
            made.append(path)
    return made


def _figure(height: float, rows: int, columns: int, **options: Any) -> tuple[Any, Any]:
    figure = matplotlib("figure").Figure(figsize=(10.0, height), facecolor="white")
    figure.set_layout_engine("constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def _shades(n: int) -> Any:
    """Give n ordered values a colour each, from dark to light."""
    return matplotlib("cm").viridis(np.linspace(0.0, 0.85, n))


def _bayes_factors(numbers: Numbers) -> Any:
    """Draw Bayes factor and perplexity over a, a line an alpha, a column a decay."""
    figure, axes = _figure(6.6, 2, len(FAMILIES), sharey="row", sharex=True)
    a, lengths = np.array(numbers.parameters), len(numbers.corpus.word)
    for (above, below), family in zip(axes.T, FAMILIES, strict=True):
        surface = numbers.surfaces[family]
        factor = surface.log_bayes_factor().mean(axis=0)
        perplexity = np.exp(-surface.log_evidence.sum(axis=0) / lengths)
        for k, shade in enumerate(_shades(len(surface.alphas))):
            style = {"color": shade, "marker": "o", "markersize": 4, "linewidth": 1.6}
            above.plot(a, factor[:, k], label=f"{surface.alphas[k]:g}", **style)
            below.plot(a, perplexity[:, k], **style)
        above.axhline(0.0, color=INK, linewidth=0.9, zorder=1)
        crp = np.exp(-numbers.fits["none"].log_evidence / lengths)
        best = {"color": INK, "linewidth": 0.9, "linestyle": "--", "zorder": 1}
        below.axhline(crp, label="CRP, best alpha", **best)
        below.set_xscale("log")
        below.set_yscale("log")
        below.yaxis.set_major_locator(matplotlib("ticker").LogLocator(subs=(1, 1.5, 2, 3, 5)))
        below.yaxis.set_major_formatter(matplotlib("ticker").StrMethodFormatter("{x:,.0f}"))
        below.set_xticks(a, [f"{value:g}" for value in a])
        below.minorticks_off()
        below.set_xlabel("decay parameter a (tokens)")
        above.set_title(family)
    axes[0, 0].set_ylabel("log Bayes factor against the CRP\nof the same alpha (nats a document)")
    axes[1, 0].set_ylabel("perplexity")
    _legend(axes[0, -1], "alpha")
    _legend(axes[1, -1], None)
    return figure


def _tables(numbers: Numbers) -> Any:
    """Draw the expected number of tables over tokens read, a line a parameter."""
    figure, axes = _figure(4.0, 1, len(FAMILIES), sharey=True)
    for ax, family in zip(axes[0], FAMILIES, strict=True):
        lines = numbers.growth_over_a[family]
        for growth, shade in zip(lines, _shades(len(lines)), strict=True):
            _curve(ax, growth, shade, f"{parameter_of(growth.decay):g}")
        _curve(ax, numbers.growth_over_a["none"][0], INK, "CRP", linestyle="--")
        ax.set_xlabel("tokens read")
        ax.set_title(family)
        ax.set_xlim(left=0)
        ax.set_ylim(bottom=0)
    axes[0, 0].set_ylabel(f"expected number of tables\ngiven the words, alpha = {lines[0].alpha:g}")
    _legend(axes[0, -1], "a (tokens)")
    return figure


def _curve(ax: Any, growth: Growth, colour: Any, label: str, **style: Any) -> None:
    n = np.arange(len(growth.posterior) + 1)
    y = np.concatenate([[0.0], growth.posterior])
    ax.plot(n, y, color=colour, linewidth=1.6, label=label, **style)


def _legend(ax: Any, title: str | None) -> None:
    ax.legend(title=title, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))


def _agreement(numbers: Numbers) -> Any:
    """Draw the expected tables over sweeps by three ways, and the distribution of their number."""
    it = numbers.agreement
    figure, ((left, right),) = _figure(4.0, 1, 2)
    n = np.arange(1, len(it.draws) + 1)
    mean = np.cumsum(it.draws) / n
    error = 2 * np.sqrt(it.variance / n)
    left.fill_between(
        n, it.mean - error, it.mean + error, color=COLOURS[5], alpha=0.3, linewidth=0,
        label="exact \N{PLUS-MINUS SIGN} 2 standard errors of a mean",
    )  # fmt: skip
    left.axhline(it.mean, color=INK, linewidth=1.2, label="exact")
    left.plot(n, mean, color=COLOURS[0], linewidth=1.4, label="Gibbs, mean of the sweeps so far")
    left.plot(
        np.arange(1, len(it.tables)), it.tables[1:], "D", color=COLOURS[3], markersize=5, zorder=3,
        label=f"mean field (random start: {it.tables[0]:.0f})",
    )  # fmt: skip
    left.set_xscale("log")
    left.xaxis.set_major_formatter(matplotlib("ticker").StrMethodFormatter("{x:,.0f}"))
    left.set_xlabel("sweeps")
    left.set_ylabel("expected number of tables")
    left.set_title(f"document {it.document}, {it.n_tokens} tokens")
    left.legend(frameon=False)
    k = np.arange(len(it.probs))
    near = np.abs(k - it.mean) <= 4.5 * np.sqrt(it.variance)
    share = np.bincount(it.draws, minlength=len(k)) / len(it.draws)
    right.bar(
        k[near], share[near], width=0.8, color=COLOURS[5], alpha=0.6,
        label=f"Gibbs, {len(it.draws):,} draws",
    )  # fmt: skip
    right.plot(k[near], it.probs[near], "o-", color=INK, markersize=3.5, linewidth=1, label="exact")
    right.set_xlabel("number of tables")
    right.set_ylabel("probability")
    right.set_title("given the words")
    right.legend(frameon=False)
    return figure
