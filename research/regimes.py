"""Section 5.3 of Bartunov and Vetrov (2014): regimes in time, Figure 2.

Variational links against Gibbs sampling on a series whose state switches at random: the mean log
density of a held-out row, by the CPU seconds that a method has had. Every second row is held out.
The sampler of the paper carries a parameter for each customer (their eq. 4); the collapsed one
integrates them out. A sampler is scored by the second half of its draws so far.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from benchmarks.streams import regimes
from research.held_out import held_out_log_likelihood
from research.parameter_chain import ParameterChain
from streamddcrp import fit_seqddcrp
from streamddcrp.likelihoods import NormalGamma
from streamddcrp.models.ddcrp.chain import Chain
from streamddcrp.models.ddcrp.distances import Distances
from streamddcrp.plots.figures import STYLE, matplotlib
from streamddcrp.plots.palette import COLOURS
from streamddcrp.typing import FloatArray

ALPHA = 0.1
DECAY = ("exponential", 4.0)
LIKELIHOOD = NormalGamma(15.0, 0.01, 0.8, 1.0 / 1.1)  # precisions as they were drawn
CHECKS = 24  # points of a curve
KEPT = 100  # draws, at most, that a score is taken over
STYLES = {  # colour of a method
    "variational links": COLOURS[0],
    "Gibbs, collapsed": COLOURS[2],
    "Gibbs, one parameter per customer": COLOURS[3],
}


@dataclass(frozen=True)
class Curve:
    """CPU seconds and, after so many, the mean log density of a held-out row."""

    seconds: FloatArray
    score: FloatArray


@dataclass(frozen=True)
class Task:
    """A series of which every second row is held out."""

    X: FloatArray
    X_test: FloatArray
    states: FloatArray

    @classmethod
    def draw(cls, n: int, seed: int) -> "Task":
        """Draw a series of twice as many rows."""
        X, y = regimes(2 * n, seed)
        first = {int(k): int(np.flatnonzero(y[::2] == k)[0]) for k in np.unique(y[::2])}
        return cls(X[::2], X[1::2], np.array([first[int(k)] for k in y[::2]]))

    def score(self, posterior: Any) -> float:
        """Mean log density of a held-out row: it may sit at any table, in proportion to size."""
        return float(
            held_out_log_likelihood(
                posterior, self.X, self.X_test, LIKELIHOOD, alpha=ALPHA, decay="none", kind="alone"
            ).mean()
        )

    @property
    def known(self) -> float:
        """The score of who knows the states of the training rows."""
        return self.score(self.states[None])


def steps(last: int) -> list[int]:
    """Numbers of sweeps after which a method is looked at."""
    return sorted({round(n) for n in np.geomspace(1, last, CHECKS)})


def variational(task: Task, last: int) -> Curve:
    """Follow the variational fit; it ends when it has converged."""
    curve = []
    for n in steps(last):
        begun = time.process_time()
        fit = fit_seqddcrp(task.X, LIKELIHOOD, alpha=ALPHA, decay=DECAY, max_sweeps=n)
        curve.append((time.process_time() - begun, task.score(fit)))
        if fit.converged:
            break
    return Curve(*np.array(curve).T)


def gibbs(task: Task, last: int, seed: int, parameters: str) -> Curve:
    """Follow a chain: the same seed gives the same chain, however long it is."""
    prior, curve = LIKELIHOOD.hyper(1), []
    rows, _ = LIKELIHOOD.prepare(task.X)
    candidates = Distances.by_index(len(rows)).candidates(DECAY, ALPHA)
    for n in steps(last):
        begun = time.process_time()
        chain = (
            Chain(rows, LIKELIHOOD.family, prior, candidates)
            if parameters == "collapsed"
            else ParameterChain(rows, LIKELIHOOD.family, prior, candidates, parameters)
        )
        links, labels = np.empty((2, n, len(rows)), np.int32)
        rng, n_tables, log_joint = np.random.default_rng(seed), np.empty(n, np.int64), np.empty(n)
        chain.draw(rng, 1, links, labels, n_tables, log_joint)
        spent = time.process_time() - begun
        draws = labels[n // 2 :]
        curve.append((spent, task.score(draws[:: 1 + len(draws) // KEPT])))
    return Curve(*np.array(curve).T)


def draw(known: float, curves: dict[str, list[Curve]], path: Path) -> None:
    """Draw Figure 2: every chain, and the score given the true states."""
    plt = matplotlib("pyplot")
    with plt.rc_context(STYLE):
        figure, ax = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
        for name, found in curves.items():
            for j, curve in enumerate(found):
                ax.plot(
                    curve.seconds, curve.score, color=STYLES[name], marker="o", ms=2.5,
                    lw=2.0 if len(found) == 1 else 1.0, label=name if j == 0 else None,
                )  # fmt: skip
        ax.axhline(known, color="black", ls="--", lw=0.8, label="given the states of training rows")
        ax.set_xscale("log")
        ax.set_xlabel("CPU seconds")
        ax.set_title("mean log density of a held-out row, nats")
        ax.legend(loc="lower right")
        figure.savefig(path, dpi=130)
        plt.close(figure)


def run(folder: Path, rows: int, sweeps: int, chains: int, seed: int) -> Iterator[str]:
    """Do it all: write the figure to a folder, yield what is to be read."""
    task = Task.draw(rows, seed)
    warm = Task.draw(20, seed)  # compiles
    variational(warm, 2)
    gibbs(warm, 2, 0, "collapsed")
    gibbs(warm, 2, 0, "per-customer")
    curves: dict[str, list[Curve]] = {"variational links": [variational(task, sweeps)]}
    kinds = {"Gibbs, collapsed": "collapsed", "Gibbs, one parameter per customer": "per-customer"}
    with tqdm(total=len(kinds) * chains, desc="chains", unit=" chains") as bar:
        for name, parameters in kinds.items():
            curves[name] = []
            for chain in range(chains):
                curves[name].append(gibbs(task, sweeps, chain, parameters))
                bar.update()
    known = task.known
    yield (
        f"Prior of all methods: Normal-Gamma(15, .01, .8, 1 / 1.1), as precisions were drawn; "
        f"alpha {ALPHA:g}, decay exp(-d / {DECAY[1]:g}). {rows:,} rows, every second one of the "
        f"series; links from one start, samplers {chains} chains of {sweeps:,} sweeps, no burn-in: "
        f"the second half of the draws counts.\n"
    )
    yield "| method | mean log density of a held-out row, at the end | CPU seconds to within 0.01 |"
    yield "| --- | --- | --- |"
    for name, found in curves.items():
        last = [curve.score[-1] for curve in found]
        there = [
            curve.seconds[np.flatnonzero(curve.score >= curve.score[-1] - 0.01)[0]]
            for curve in found
        ]
        yield (
            f"| {name} | {np.median(last):.3f} ({min(last):.3f} to {max(last):.3f}) "
            f"| {np.median(there):.3f} ({min(there):.3f} to {max(there):.3f}) |"
        )
    yield f"| given the states of the training rows | {known:.3f} | |"
    yield ""
    path = folder / "figure-2.png"
    draw(known, curves, path)
    yield f"Figure: {path}"
