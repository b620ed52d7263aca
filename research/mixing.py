"""Blei and Frazier (2011): how fast links mix, beside Algorithm 3 of Neal (2000), for one CRP.

A ddCRP without decay is the CRP, so both samplers have the same posterior of partitions. A link
moves all customers below it, a step of Algorithm 3 one customer. The data are the five Gaussians of
Bartunov and Vetrov (2014), as those of the slides are not public; they print no number.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.special import gammaln
from tqdm import tqdm

from benchmarks.streams import five_gaussians
from streamddcrp.estimator.sweeps import r_hat
from streamddcrp.likelihoods import Likelihood, NormalWishart
from streamddcrp.models.ddcrp.sampler import sample_ddcrp
from streamddcrp.plots.figures import STYLE, matplotlib
from streamddcrp.plots.palette import COLOURS
from streamddcrp.typing import FloatArray, IntArray

ALPHA = 1.0
RADII = (2, 3, 4)
LIKELIHOOD = NormalWishart(np.zeros(2), 0.05, 4.0 * np.eye(2), 4.0)
STYLES = {"links of the ddCRP": COLOURS[0], "Algorithm 3": COLOURS[3]}


def algorithm_3(
    X: FloatArray, likelihood: Likelihood, alpha: float, n_sweeps: int, rng: np.random.Generator
) -> IntArray:
    """Draw partitions by collapsed Gibbs over tables, one customer after another.

    At first every customer is at a table of its own, as in `sample_ddcrp`. O(N K) marginal
    likelihoods a sweep. Returns labels, shape (n_sweeps, N).
    """
    n, rows = len(X), likelihood.suffstats(X)
    z, stats, size = np.arange(n), rows.copy(), np.ones(n)  # n slots are enough
    marginal = likelihood.log_marginal(stats)
    alone = marginal.copy()  # of each row by itself
    out = np.empty((n_sweeps, n), np.int64)
    for s in range(n_sweeps):
        for i in range(n):
            old = z[i]
            size[old] -= 1.0
            stats[old] -= rows[i]
            used = np.flatnonzero(size)
            both = likelihood.log_marginal(np.vstack([stats[used] + rows[i], stats[old]]))
            joint, marginal[old] = both[:-1], both[-1]
            score = np.append(np.log(size[used]) + joint - marginal[used], np.log(alpha) + alone[i])
            p = np.cumsum(np.exp(score - score.max()))
            chosen = int(np.searchsorted(p, rng.random() * p[-1], side="right"))
            if chosen < len(used):
                k, marginal_k = used[chosen], joint[chosen]
                stats[k] += rows[i]
            else:
                k, marginal_k = int(np.flatnonzero(size == 0.0)[0]), alone[i]
                stats[k] = rows[i]
            z[i], marginal[k] = k, marginal_k
            size[k] += 1.0
        out[s] = z
    return out


def log_joint(labels: IntArray, X: FloatArray, likelihood: Likelihood, alpha: float) -> FloatArray:
    """Log p(x, z) of partitions (S, N) under the CRP, shape (S,)."""
    n, rows = labels.shape[1], likelihood.suffstats(X)
    out = np.empty(len(labels))
    for s, z in enumerate(labels):
        _, slot, size = np.unique(z, return_inverse=True, return_counts=True)
        stats = np.zeros((len(size), rows.shape[1]))
        np.add.at(stats, slot, rows)
        log_prior = len(size) * np.log(alpha) + gammaln(size).sum()
        out[s] = log_prior + likelihood.log_marginal(stats).sum()
    return np.asarray(out + gammaln(alpha) - gammaln(alpha + n))


def effective(x: FloatArray) -> float:
    """Effective number of draws of chains (C, S): autocorrelations up to the first pair below 0."""
    n = x.shape[1]
    centred = x - x.mean()
    spectrum = np.fft.rfft(centred, 2 * n)
    covariance = np.fft.irfft(spectrum * spectrum.conj())[:, :n].mean(axis=0) / n
    if covariance[0] <= 0.0:
        return float(x.size)
    pairs = (covariance / covariance[0])[: 2 * (n // 2)].reshape(-1, 2).sum(axis=1)
    below = np.flatnonzero(pairs <= 0.0)
    return float(x.size / max(2.0 * pairs[: below[0] if len(below) else None].sum() - 1.0, 1e-9))


def chains(radius: int, n_chains: int, n_sweeps: int, seed: int) -> dict[str, IntArray]:
    """Run both samplers from every customer alone; labels (C, S, N) of each."""
    X, _ = five_gaussians(200, radius, seed)
    links = sample_ddcrp(
        X, LIKELIHOOD, alpha=ALPHA, decay="none", n_sweeps=n_sweeps, burn_in=0, n_chains=n_chains,
        seed=seed,
    )  # fmt: skip
    generators = np.random.default_rng(seed).spawn(n_chains)
    neal = [algorithm_3(X, LIKELIHOOD, ALPHA, n_sweeps, rng) for rng in generators]
    by_links = links.labels.astype(np.int64).reshape(n_chains, n_sweeps, -1)
    return dict(zip(STYLES, (by_links, np.array(neal)), strict=True))


def traces(labels: IntArray, radius: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Return log p(x, z) and the number of tables along chains, each (C, S)."""
    X, _ = five_gaussians(200, radius, seed)
    joint = np.array([log_joint(one, X, LIKELIHOOD, ALPHA) for one in labels])
    tables = np.array([[float(len(np.unique(z))) for z in one] for one in labels])
    return joint, tables


def draw(found: dict[int, dict[str, FloatArray]], path: Path) -> None:
    """Draw log p(x, z), the mean of the chains, a panel for each radius."""
    plt = matplotlib("pyplot")
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(
            1, len(found), figsize=(3.4 * len(found), 3.2), layout="constrained", squeeze=False
        )
        for ax, (radius, by_name) in zip(axes[0], found.items(), strict=True):
            for name, joint in by_name.items():
                mean = joint.mean(axis=0)
                ax.plot(range(1, 1 + len(mean)), mean, color=STYLES[name], label=name)
            settled = [joint.mean(axis=0)[joint.shape[1] // 5 :] for joint in by_name.values()]
            ax.set(title=f"R = {radius}: log p(x, z)", xscale="log", ylim=(
                np.min(settled) - 60.0, np.max(settled) + 10.0,
            ))  # fmt: skip
            ax.set_xlabel("sweep")
        axes[0, 0].legend(loc="lower right")
        figure.savefig(path, dpi=130)
        plt.close(figure)


def run(folder: Path, n_chains: int, n_sweeps: int, seed: int) -> Iterator[str]:
    """Yield the table, and draw the figure into the folder."""
    yield (
        f"Prior of both: Normal-Wishart, kappa .05, dof 4, scatter 4 I, alpha {ALPHA:g}, the CRP. "
        f"200 rows; {n_chains} chains of {n_sweeps} sweeps each, every row alone at first.\n"
    )
    yield "| R | sampler | sweeps to the top | R-hat | tables | effective draws in 100 sweeps |"
    yield "|" + " --- |" * 6
    found: dict[int, dict[str, FloatArray]] = {}
    burn = n_sweeps // 5
    for radius in tqdm(RADII, desc="radii"):
        found[radius] = {}
        both = {
            name: traces(labels, radius, seed)
            for name, labels in chains(radius, n_chains, n_sweeps, seed).items()
        }
        settled = np.concatenate([joint[:, burn:] for joint, _ in both.values()])
        top = np.median(settled)
        for name, (joint, tables) in both.items():
            found[radius][name] = joint
            there = [np.append(np.flatnonzero(one >= top), n_sweeps)[0] + 1 for one in joint]
            draws = 100.0 / (n_sweeps - burn) / n_chains * effective(joint[:, burn:])
            of_tables = 100.0 / (n_sweeps - burn) / n_chains * effective(tables[:, burn:])
            yield (
                f"| {radius} | {name} | {np.median(there):.0f} ({min(there)} to {max(there)}) "
                f"| {r_hat(joint[:, burn:]):.2f} | {tables[:, burn:].mean():.2f} "
                f"| {draws:.1f} of log p(x, z), {of_tables:.1f} of the number of tables |"
            )
    path = folder / "mixing.png"
    draw(found, path)
    yield f"\nFigure: {path}"
