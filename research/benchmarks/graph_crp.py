"""How good, how fast and how large is `GraphCRP`, and what would a bootstrap filter cost?

Quality and speed: the five Gaussians that come and go (``tv_gauss``: 2,000 rows, r = 50), labels
and densities predicted before each row is learned, CPU time of ``step_many``. Memory: the bytes of
the state along a stream of 100,000 rows. Sensors: a pump and an office, predicted before learned.
Peer: the same model by a bootstrap filter, which proposes
clusters by the prior and weighs them by the density, in the library ``particles``, or, where that
is not installed, in the same few lines of numpy; compared by the CPU time for equal variance of the
log evidence, which for both falls as one over the number of particles.
"""

from __future__ import annotations

import time
from typing import Any

import click
import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_limits

from benchmarks.machine import machine, markdown, met, spread
from research.data import shared_file
from research.graph_clustering_numbers import oracle_score, tv_gauss
from streamddcrp.models.graph.graph_crp import GraphCRP

try:
    import particles
except ImportError:
    particles = None

FloatArray = NDArray[np.float64]
R, ALPHA, KAPPA, SHAPE, RATE = 50, 0.3, 0.05, 2.0, 2.0
LIKELIHOOD = ("normal_gamma", 0.0, KAPPA, SHAPE, RATE)
SENSORS = (
    ("a pump (SKAB)", "skab/skab.parquet", [
        "accelerometer1rms", "accelerometer2rms", "current", "pressure", "temperature",
        "thermocouple", "voltage", "volume_flow_raterms",
    ]),
    ("an office (occupancy)", "occupancy/occupancy.parquet", [
        "temperature", "humidity", "light", "co2",
    ]),
)  # fmt: skip
SLOTS = 24  # clusters of a particle of the peer; the least used one gives way


class Bootstrap:
    """Particles of the peer: labels of the last r rows and statistics of their clusters."""

    def __init__(self, n: int, rng: Any) -> None:
        self.rng = rng
        self.label = np.full((n, R), -1)
        self.near = np.zeros((n, SLOTS))
        self.kappa = np.full((n, SLOTS), KAPPA)
        self.shape = np.full((n, SLOTS), SHAPE)
        self.mean = np.zeros((n, SLOTS, 2))
        self.rate = np.full((n, SLOTS, 2), RATE)

    def __getitem__(self, ancestors: Any) -> Bootstrap:
        new = object.__new__(Bootstrap)
        new.rng = self.rng
        for name in ("label", "near", "kappa", "shape", "mean", "rate"):
            setattr(new, name, getattr(self, name)[ancestors])
        return new

    def step(self, t: int, x: FloatArray) -> FloatArray:
        """Propose a cluster by the prior, learn the row; return the log weights."""
        n, at = len(self.label), t % R
        if t >= R:
            self.near[np.arange(n), self.label[:, at]] -= 1
            # it was a parent of this row: it leaves the counts after the draw
        weight = self.near.copy()
        if t >= R:
            weight[np.arange(n), self.label[:, at]] += 1
        upto = np.cumsum(np.column_stack([weight, np.full(n, ALPHA)]), axis=1)
        k = (self.rng.random(n)[:, None] * upto[:, -1:] >= upto).sum(axis=1)
        every = np.arange(n)
        new = np.flatnonzero(k == SLOTS)
        k[new] = self.near[new].argmin(axis=1)
        self.kappa[new, k[new]], self.shape[new, k[new]] = KAPPA, SHAPE
        self.mean[new, k[new]], self.rate[new, k[new]] = 0.0, RATE
        kappa, shape = self.kappa[every, k], self.shape[every, k]
        mean, rate = self.mean[every, k], self.rate[every, k]
        gap = x - mean
        scale = 2.0 * rate * ((kappa + 1.0) / kappa)[:, None]
        out = 2.0 * (gammaln(shape + 0.5) - gammaln(shape))
        out -= (0.5 * np.log(np.pi * scale)).sum(axis=1)
        out -= (shape + 0.5) * np.log1p(gap**2 / scale).sum(axis=1)
        self.rate[every, k] = rate + 0.5 * (kappa / (kappa + 1.0))[:, None] * gap**2
        self.mean[every, k] = mean + gap / (kappa + 1.0)[:, None]
        self.kappa[every, k], self.shape[every, k] = kappa + 1.0, shape + 0.5
        self.near[every, k] += 1.0
        self.label[:, at] = k
        return out


def by_numpy(X: FloatArray, n: int, seed: int) -> float:
    """Log evidence by the filter written out: systematic resampling at half the effective size."""
    rng = np.random.default_rng(seed)
    state, log_weight, log_evidence = Bootstrap(n, rng), np.full(n, -np.log(n)), 0.0
    for t, x in enumerate(X):
        weight = np.exp(log_weight)
        if 1.0 / (weight**2).sum() < 0.5 * n:
            grid = (np.arange(n) + rng.random()) / n
            state = state[np.searchsorted(np.cumsum(weight) / weight.sum(), grid).clip(0, n - 1)]
            log_weight = np.full(n, -np.log(n))
        log_weight = log_weight + state.step(t, x)
        total = float(logsumexp(log_weight))
        log_evidence += total
        log_weight -= total
    return log_evidence


def by_library(X: FloatArray, n: int, seed: int) -> float:
    """Log evidence by the library's filter."""
    rng = np.random.default_rng(seed)
    np.random.seed(seed)  # noqa: NPY002 -- the library's generator

    class Model(particles.FeynmanKac):  # type: ignore[misc,name-defined]
        def M0(self, N: int) -> Bootstrap:  # noqa: N802
            return self.M(0, Bootstrap(N, rng))

        def M(self, t: int, xp: Bootstrap) -> Bootstrap:  # noqa: N802
            self.found = xp.step(t, X[t])
            return xp

        def logG(self, t: int, xp: Any, x: Any) -> FloatArray:  # noqa: N802
            return self.found

    run = particles.SMC(fk=Model(len(X)), N=n, resampling="systematic", ESSrmin=0.5)
    run.run()
    return float(run.logLt)


def quality(seeds: int, rows: list[tuple[str, int, dict[str, Any]]]) -> None:
    streams = [tv_gauss(seed) for seed in range(seeds)]
    oracle = float(np.mean([oracle_score(X) for X, _ in streams]))
    click.echo(f"\nFive Gaussians, {seeds} streams; oracle {oracle:.4f} nats a row.\n")
    click.echo(markdown(("model", "ARI", "nats a row", "us a row", "targets met"), []))
    for name, n_particles, options in rows:
        ari, score, cost = [], [], []
        for X, y in streams:
            model = GraphCRP(likelihood=LIKELIHOOD, n_particles=n_particles, **options)
            begun = time.process_time()
            out = model.step_many(X)
            cost.append(1e6 * (time.process_time() - begun) / len(X))
            ari.append(adjusted_rand_score(y, out["label"].to_numpy()))
            score.append(-float(out["score"].to_numpy().mean()))
        enough = np.mean(ari) >= 0.99, oracle - np.mean(score) <= 0.1
        fast = min(cost) <= 100.0 * n_particles / 100
        row = name, spread(ari, ".4f"), spread(score, ".4f"), spread(cost, ".1f")
        click.echo(markdown([*row, met(*enough, fast)], []).splitlines()[0])


def sensors(n_rows: int) -> None:
    click.echo(f"\nThe first {n_rows:,} rows of real sensors, nothing set but rejuvenate.\n")
    click.echo(markdown(("stream", "rejuvenate", "nats a row", "labels", "us a row"), []))
    for name, path, columns in SENSORS:
        table = pq.read_table(shared_file(path), columns=columns).slice(0, n_rows)
        for rejuvenate in (0, 20):
            model = GraphCRP(rejuvenate=rejuvenate)
            model.learn_many(table.slice(0, 100))
            begun = time.process_time()
            out = model.step_many(table.slice(100))
            cost = 1e6 * (time.process_time() - begun) / len(out)
            labels = len(np.unique(out["label"].to_numpy()))
            row = (
                name,
                str(rejuvenate),
                f"{-out['score'].to_numpy(zero_copy_only=False).mean():.2f}",
                str(labels),
            )
            click.echo(markdown([*row, f"{cost:.0f}"], []).splitlines()[0])


def memory(n_rows: int) -> None:
    X = np.concatenate([tv_gauss(seed)[0] for seed in range(5)])
    model, sizes = GraphCRP(likelihood=LIKELIHOOD), []
    for start in range(0, n_rows, len(X)):
        model.learn_many(X[: min(len(X), n_rows - start)])
        sizes.append((model.nbytes, len(model.to_bytes())))
    shown = [f"{a / 1e3:.0f} kB, stored {b / 1e3:.0f} kB" for a, b in (sizes[0], sizes[-1])]
    click.echo(f"\nState after {len(X):,} rows: {shown[0]}; after {n_rows:,}: {shown[1]}.")


def peer(n_rows: int, repeats: int) -> None:
    X = tv_gauss(0)[0][:n_rows]
    log_evidence = by_numpy if particles is None else by_library
    click.echo(f"\nVariance of the log evidence of {n_rows} rows over {repeats} seeds.\n")
    if particles is None:
        click.echo("The library `particles` is not installed: the peer is the same in numpy.\n")
    click.echo(markdown(("filter", "particles", "mean", "sd", "CPU ms", "ms at sd 0.1"), []))
    at_equal_error = {}
    for name, sizes in {"bootstrap": (100, 1000, 4000), "ours": (10, 100, 1000)}.items():
        for n in sizes:
            found, begun = [], time.process_time()
            for seed in range(repeats):
                if name == "ours":
                    model = GraphCRP(likelihood=LIKELIHOOD, alpha=ALPHA, n_particles=n, seed=seed)
                    model.learn_many(X)
                    found.append(model.objective)
                else:
                    found.append(log_evidence(X, n, seed))
            cost = 1e3 * (time.process_time() - begun) / repeats
            sd = float(np.std(found, ddof=1))
            at_equal_error[name] = cost * (sd / 0.1) ** 2
            row = name, f"{n:,}", f"{np.mean(found):.2f}", f"{sd:.3f}", f"{cost:.1f}"
            click.echo(markdown([*row, f"{at_equal_error[name]:.0f}"], []).splitlines()[0])
    times = at_equal_error["bootstrap"] / at_equal_error["ours"]
    click.echo(f"\nAt equal error the bootstrap filter takes {times:.0f} times as long.")


@click.command("graph_crp", help="Quality, speed and memory of GraphCRP; a bootstrap filter.")
@click.option("--seeds", default=5, show_default=True, help="Streams for quality.")
@click.option("--long", default=100_000, show_default=True, help="Rows for memory.")
@click.option("--rows", default=500, show_default=True, help="For the peer.")
@click.option("--repeats", default=10, show_default=True, help="Seeds for the peer.")
def main(seeds: int, long: int, rows: int, repeats: int) -> None:
    """Print four tables."""
    click.echo(machine())
    with threadpool_limits(1):
        GraphCRP(likelihood=LIKELIHOOD).learn_many(np.zeros((2, 2)))  # compiles
        fixed = {"alpha": ALPHA}
        settings = [
            ("r = 50 (default)", 100, {}),
            ("r = 50, alpha = 0.3", 100, fixed),
            ("10 particles", 10, fixed),
            ("1,000 particles", 1000, fixed),
            ("r = 50, rejuvenate 20", 100, {"rejuvenate": 20}),
            ("r = 20", 100, {"window": 20}),
            ("r = 100", 100, {"window": 100}),
            ("r = 2000: a Dirichlet process", 100, {"window": 2000}),
        ]
        quality(seeds, settings)
        sensors(6000)
        memory(long)
        peer(rows, repeats)


if __name__ == "__main__":
    main()
