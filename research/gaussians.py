"""Section 5.2 of Bartunov and Vetrov (2014): five Gaussians, Table 1, Figures 3 to 5.

Table 1 compares the log likelihood of 200 held-out rows (their eq. 7) under the sequential ddCRP,
which knows that rows came component by component, and under the same model with the CRP's prior.
Their printed rows can only be right from bottom to top: in the printed order the value at R = 5
beats the true density by two hundred nats, and the one at R = 1 is three hundred below a single
Gaussian. The table here prints the true density beside ours, and theirs in both orders.

Figure 3 follows the bounds of the two variational families for the DP mixture, links and truncated
stick-breaking, sweep by sweep; Figure 4 shows where they end from many random starts. Figure 5
follows the score of Table 1 sweep by sweep.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import logsumexp
from tqdm import tqdm

from benchmarks.streams import CORNERS, five_gaussians
from research.held_out import held_out_log_likelihood
from streamddcrp import SeqDDCRPFit, fit_seqddcrp
from streamddcrp.likelihoods import NormalWishart
from streamddcrp.models.ddcrp.chain import DDCRPSamples
from streamddcrp.models.ddcrp.sampler import sample_ddcrp
from streamddcrp.plots.figures import STYLE, matplotlib
from streamddcrp.plots.palette import COLOURS
from streamddcrp.typing import FloatArray

from .stick_breaking import GaussianPrior, polish

N = 200
RADII = (1, 2, 3, 4, 5)
ALPHA = 0.1
DECAY = ("exponential", 4.0)
TRUNCATION = 50
LOOKS = (1, 2, 3, 4, 5, 7, 10, 15, 20, 30)  # sweeps of Figure 5
N_SWEEPS, BURN_IN, CHAINS = 400, 200, 2  # of the sampler
DRAWS = 32  # ways to seat the test rows, for each sample
PRIOR = GaussianPrior(np.zeros(2), 1e-7, 4.0 * np.eye(2), 4.0001)  # the authors' demonstration
LIKELIHOOD = NormalWishart(PRIOR.mean, PRIOR.kappa, PRIOR.scatter, PRIOR.dof)
PRINTED = {  # Table 1 as printed: (seqddCRP, seqCRP)
    1: (-863.55, -965.76),
    2: (-900.70, -905.75),
    3: (-864.93, -888.10),
    4: (-825.26, -836.58),
    5: (-689.38, -691.96),
}


PUBLISHED_BOUNDS = {
    5: "-1881.59 and -1886.29 (other data, probably 400 rows)",
    3: "-1891.73 and -1892.66 (other data, probably 400 rows)",
}


@dataclass(frozen=True)
class Climb:
    """Bounds after each sweep from one start, and where it ended."""

    trace: FloatArray
    bound: float


def true_log_likelihood(X: FloatArray, radius: float) -> float:
    """Log density of rows under the mixture that made them, summed."""
    square = ((X[:, None, :] - radius * CORNERS) ** 2).sum(axis=2)
    log_density = -0.5 * square - np.log(2.0 * np.pi) - np.log(len(CORNERS))
    return float(logsumexp(log_density, axis=1).sum())


def fit_links(X: FloatArray, decay: object, max_sweeps: int = 1000) -> SeqDDCRPFit:
    """Fit by variational links, from every customer at a table of its own."""
    return fit_seqddcrp(X, LIKELIHOOD, alpha=ALPHA, decay=decay, max_sweeps=max_sweeps)


def fit_sticks(X: FloatArray, rng: np.random.Generator) -> Climb:
    """Fit by truncated stick-breaking, from the nearest of as many random rows."""
    centres = X[rng.choice(len(X), TRUNCATION, replace=False)]
    nearest = ((X[:, None, :] - centres) ** 2).sum(axis=2).argmin(axis=1)
    found = polish(X, np.eye(TRUNCATION)[nearest], PRIOR, ALPHA, tol=1e-6)
    return Climb(found.trace, found.bound)


def climbs(radius: int, starts: int, seed: int, bar: Any) -> tuple[list[Climb], list[Climb]]:
    """Fit the DP mixture from many random starts, by links and by sticks.

    A start of the links is an order of the rows: the CRP is exchangeable, so every order bounds the
    same evidence.
    """
    X, _ = five_gaussians(N, radius, seed)
    links, sticks = [], []
    for rng in np.random.default_rng(seed).spawn(starts):
        fit = fit_links(rng.permutation(X), "none")
        links.append(Climb(fit.bound_trace, fit.bound))
        sticks.append(fit_sticks(X, rng))
        bar.update()
    return links, sticks


def draw_climbs(links: list[Climb], sticks: list[Climb], path: Path) -> None:
    """Draw Figure 3: bounds against sweeps, every start and, thick, the best one."""
    plt = matplotlib("pyplot")
    with plt.rc_context(STYLE):
        figure, ax = plt.subplots(figsize=(7.0, 4.0), layout="constrained")
        best = max(climb.bound for climb in links + sticks)
        for name, colour, found in (("links", COLOURS[0], links), ("sticks", COLOURS[3], sticks)):
            leader = max(found, key=lambda climb: climb.bound)
            for climb in found:
                ax.plot(
                    range(1, 1 + len(climb.trace)), climb.trace, color=colour, lw=0.6, alpha=0.3
                )
            label = f"customer links (ours), best {leader.bound:.1f}"
            if name == "sticks":
                label = f"stick-breaking, {TRUNCATION} components, best {leader.bound:.1f}"
            ax.plot(
                range(1, 1 + len(leader.trace)), leader.trace, color=colour, lw=2.0, label=label
            )
        ax.set_xscale("log")
        ax.set_ylim(best - 260.0, best + 15.0)
        ax.set_title("Bound on the log evidence of the DP mixture, R = 5")
        ax.set_xlabel("sweep")
        ax.set_ylabel("bound, nats")
        ax.legend(loc="lower right")
        figure.savefig(path, dpi=130)
        plt.close(figure)


def draw_ends(found: dict[int, tuple[list[Climb], list[Climb]]], path: Path) -> None:
    """Draw Figure 4: where the starts ended, a panel for each radius."""
    plt = matplotlib("pyplot")
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(
            len(found), figsize=(7.0, 2.6 * len(found)), layout="constrained"
        )
        for ax, (radius, (links, sticks)) in zip(axes, found.items(), strict=True):
            ends = [[climb.bound for climb in side] for side in (links, sticks)]
            low, high = min(map(min, ends)), max(map(max, ends))
            bins = np.linspace(low - 1.0, high + 1.0, 50)
            ax.hist(ends[0], bins, color=COLOURS[0], label="customer links (ours)")
            ax.hist(ends[1], bins, color=COLOURS[3], alpha=0.75, label="stick-breaking")
            ax.set_title(f"R = {radius}: where {len(links)} random starts end")
            ax.set_ylabel("starts")
        axes[0].legend(loc="upper left")
        axes[-1].set_xlabel("bound on the log evidence, nats")
        figure.savefig(path, dpi=130)
        plt.close(figure)


@dataclass(frozen=True)
class Scores:
    """Log likelihood of the held-out rows of one data set, by method."""

    truth: float
    ours_ddcrp: float
    ours_crp: float
    gibbs_ddcrp: float
    gibbs_crp: float
    seconds: tuple[float, float]  # of CPU, for both links and both samplers


def test_score(posterior: Any, X: FloatArray, X_test: FloatArray, seed: int) -> float:
    """Return the log likelihood of held-out rows by eq. 7, summed."""
    return float(
        held_out_log_likelihood(
            posterior, X, X_test, LIKELIHOOD, alpha=ALPHA, decay="none", kind="joint",
            plug_in=True, n_draws=DRAWS, seed=seed,
        ).sum()
    )  # fmt: skip


def by_sweep(radius: int, seed: int) -> dict[str, list[float]]:
    """Return the score of Table 1 after each number of sweeps in `LOOKS`, by prior."""
    X, _ = five_gaussians(N, radius, seed)
    X_test, _ = five_gaussians(N, radius, 1000 + seed, shuffled=True)
    return {
        name: [test_score(fit_links(X, decay, n), X, X_test, seed) for n in LOOKS]
        for name, decay in (("seqddCRP", DECAY), ("seqCRP", "none"))
    }


def draw_by_sweep(found: dict[int, list[dict[str, list[float]]]], path: Path) -> None:
    """Draw Figure 5: a panel for each radius, a line for each data set and prior."""
    plt = matplotlib("pyplot")
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(
            1, len(found), figsize=(9.0, 3.4), layout="constrained", squeeze=False
        )
        for ax, (radius, sets) in zip(axes[0], found.items(), strict=True):
            for name, colour in (("seqddCRP", COLOURS[0]), ("seqCRP", COLOURS[3])):
                for seed, one in enumerate(sets):
                    label = name if seed == 0 else None
                    ax.plot(LOOKS, one[name], color=colour, marker="o", ms=2.5, label=label)
            ax.set(title=f"R = {radius}: log likelihood of held-out rows", xscale="log")
            ax.set_xlabel("sweep")
        axes[0, 0].legend(loc="lower right")
        figure.savefig(path, dpi=130)
        plt.close(figure)


def scores(radius: int, seed: int) -> Scores:
    """Fit a data set, rows in order, and score 200 shuffled rows by eq. 7.

    Test rows link to training rows and to earlier test rows alike, and open no tables, as in the
    paper; parameters are posterior means.
    """
    X, _ = five_gaussians(N, radius, seed)
    X_test, _ = five_gaussians(N, radius, 1000 + seed, shuffled=True)

    def held_out(posterior: Any) -> float:
        return test_score(posterior, X, X_test, seed)

    def sampled(decay: object) -> DDCRPSamples:
        return sample_ddcrp(
            X, LIKELIHOOD, alpha=ALPHA, decay=decay, n_chains=CHAINS, n_sweeps=N_SWEEPS,
            burn_in=BURN_IN, thin=10, seed=seed,
        )  # fmt: skip

    begun = time.process_time()
    fits = [fit_links(X, DECAY), fit_links(X, "none")]
    between = time.process_time()
    draws = [sampled(DECAY), sampled("none")]
    seconds = between - begun, time.process_time() - between
    found = (held_out(posterior) for posterior in (*fits, *draws))
    return Scores(true_log_likelihood(X_test, radius), *found, seconds)


def table(found: dict[int, list[Scores]]) -> Iterator[str]:
    """Yield Table 1 in Markdown: medians and ranges beside what was published."""
    links, gibbs = np.median([row.seconds for rows in found.values() for row in rows], axis=0)
    yield (
        f"Prior of all columns: Normal-Wishart, kappa {PRIOR.kappa:g}, dof {PRIOR.dof:g}, scatter "
        f"4 I, alpha {ALPHA:g}, as in the authors' demonstration; seqddCRP: decay exp(-d / "
        f"{DECAY[1]:g}), seqCRP: none. {N} rows in order, {N} shuffled ones held out, no parameter "
        f"chosen on them. Links sweep until the bound rests, {0.5 * links:.2f} CPU s a fit; Gibbs: "
        f"{CHAINS} chains of {BURN_IN} + {N_SWEEPS} sweeps, {0.5 * gibbs:.1f} CPU s.\n"
    )
    yield "| R | true density | seqddCRP | seqCRP | seqddCRP, Gibbs | seqCRP, Gibbs |" + (
        " published, printed order | published, from the bottom |"
    )
    yield "|" + " --- |" * 8
    for radius, rows in found.items():
        cells = []
        for name in ("truth", "ours_ddcrp", "ours_crp", "gibbs_ddcrp", "gibbs_crp"):
            values = [getattr(row, name) for row in rows]
            cells.append(f"{np.median(values):.1f} ({min(values):.0f} to {max(values):.0f})")
        for place in (radius, len(RADII) + 1 - radius):
            cells.append("{:.1f}, {:.1f}".format(*PRINTED[place]))
        yield f"| {radius} | " + " | ".join(cells) + " |"


def run(folder: Path, seeds: int, starts: int, first: int) -> Iterator[str]:
    """Do it all: write the figures to a folder, yield what is to be read."""
    found: dict[int, list[Scores]] = {}
    with tqdm(total=len(RADII) * seeds, desc="Table 1", unit=" data sets") as bar:
        for radius in RADII:
            found[radius] = []
            for seed in range(first, first + seeds):
                found[radius].append(scores(radius, seed))
                bar.update()
    yield from table(found)
    yield ""
    with tqdm(total=2 * starts, desc="Figures 3 and 4", unit=" starts") as bar:
        ends = {radius: climbs(radius, starts, first, bar) for radius in (5, 3)}
    for radius, (links, sticks) in ends.items():
        best = max(climb.bound for climb in links), max(climb.bound for climb in sticks)
        yield (
            f"R = {radius}: best bound of {starts} starts {best[0]:.2f} by links, {best[1]:.2f} by "
            f"stick-breaking, coordinate ascent from {TRUNCATION} random rows without merges or "
            f"births, a weak optimiser; published {PUBLISHED_BOUNDS[radius]}"
        )
    sweeps = {r: [by_sweep(r, seed) for seed in range(first, first + seeds)] for r in (3, 5)}
    yield "\n| held-out rows after sweep | " + " | ".join(map(str, LOOKS)) + " |"
    yield "|" + " --- |" * (1 + len(LOOKS))
    for radius, sets in sweeps.items():
        for name in sets[0]:
            medians = np.median([one[name] for one in sets], axis=0)
            yield f"| R = {radius}, {name} | " + " | ".join(f"{x:.1f}" for x in medians) + " |"
    figures = [folder / f"figure-{number}.png" for number in (3, 4, 5)]
    draw_climbs(*ends[5], figures[0])
    draw_ends(ends, figures[1])
    draw_by_sweep(sweeps, figures[2])
    yield "Figures: " + ", ".join(map(str, figures))
