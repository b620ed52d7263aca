"""How fast is a sweep of the ddCRP sampler, and how much faster than in plain Python?

Points in the plane, in regimes of about twenty, Normal-Gamma tables. CPU seconds of one thread,
since the machine is shared; a chain is warmed up by ten sweeps first. The peer does what public
Python implementations do: it searches the component of a customer along the links, and computes a
table's likelihood from its points whenever it needs it, though only once for each table and update,
not for each candidate. It starts where our chain stands, on the same rows and candidates, and both
sweep in turn, round after round.
"""

from __future__ import annotations

import time
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln
from threadpoolctl import threadpool_limits

from benchmarks.machine import machine, markdown, met, spread
from streamddcrp.likelihoods import NormalGamma
from streamddcrp.models.ddcrp.chain import Chain
from streamddcrp.models.ddcrp.distances import Distances

FloatArray = NDArray[np.float64]
ALPHA = 0.5
MEAN, KAPPA, SHAPE, RATE = 0.0, 0.05, 2.0, 1.0
TARGET = 5.0  # microseconds a customer and sweep, window 100, N = 10^4


def points(n: int, seed: int = 0) -> FloatArray:
    """Regimes around four centres."""
    rng = np.random.default_rng(seed)
    z = np.repeat(rng.integers(0, 4, n), rng.integers(1, 40, n))[:n]
    return rng.normal(0.0, 5.0, (4, 2))[z] + rng.normal(size=(n, 2))


def our_chain(X: FloatArray, decay: Any) -> Chain:
    family = NormalGamma(MEAN, KAPPA, SHAPE, RATE)
    candidates = Distances.by_index(len(X)).candidates(decay, ALPHA)
    chain = Chain(X, family.family, family.hyper(X.shape[1]), candidates)
    rng = np.random.default_rng(0)
    chain.forward(rng)
    chain.sweep(rng, 10)
    return chain


def seconds_a_sweep(chain: Chain, n_sweeps: int) -> float:
    rng = np.random.default_rng(1)
    start = time.process_time()
    chain.sweep(rng, n_sweeps)
    return (time.process_time() - start) / n_sweeps


class Peer:
    """The collapsed sampler for sequential links in plain Python and numpy."""

    def __init__(self, X: FloatArray, links: Any, weight: FloatArray) -> None:
        self.X, self.weight = X, weight
        self.links: list[int] = [int(j) for j in links]
        self.children: list[set[int]] = [set() for _ in X]
        for i, j in enumerate(self.links):
            if i != j:
                self.children[j].add(i)

    def component(self, i: int) -> list[int]:
        """Everybody connected with i."""
        seen, todo = {i}, [i]
        while todo:
            j = todo.pop()
            for k in (self.links[j], *self.children[j]):
                if k not in seen:
                    seen.add(k)
                    todo.append(k)
        return sorted(seen)

    def log_likelihood(self, members: list[int]) -> float:
        """Normal-Gamma, from the points."""
        x = self.X[members]
        n, mean = len(x), x.mean(axis=0)
        kappa, shape = KAPPA + n, SHAPE + 0.5 * n
        rate = RATE + 0.5 * ((x - mean) ** 2).sum(axis=0)
        rate = rate + 0.5 * KAPPA * n * (mean - MEAN) ** 2 / kappa
        return float(
            (
                gammaln(shape) - gammaln(SHAPE) + SHAPE * np.log(RATE) - shape * np.log(rate)
                + 0.5 * np.log(KAPPA / kappa) - 0.5 * n * np.log(2.0 * np.pi)
            ).sum()
        )  # fmt: skip

    def update(self, i: int, rng: np.random.Generator) -> None:
        if self.links[i] != i:
            self.children[self.links[i]].discard(i)
        self.links[i] = i
        own = self.component(i)
        log_own = self.log_likelihood(own)
        gain: dict[int, float] = {}  # by the smallest customer of a table
        home: dict[int, int] = {}
        options, log_p = [i], [np.log(ALPHA)]
        for gap in range(1, min(i, len(self.weight)) + 1):
            j = i - gap
            if j not in home:
                table = self.component(j)
                home.update(dict.fromkeys(table, table[0]))
                both = self.log_likelihood(table + own)
                gain[table[0]] = both - self.log_likelihood(table) - log_own
            options.append(j)
            log_p.append(np.log(self.weight[gap - 1]) + gain[home[j]])
        p = np.exp(np.array(log_p) - max(log_p))
        j = options[rng.choice(len(p), p=p / p.sum())]
        self.links[i] = j
        if j != i:
            self.children[j].add(i)

    def sweep(self, rng: np.random.Generator) -> float:
        """Return CPU seconds."""
        start = time.process_time()
        for i in rng.permutation(len(self.X)):
            self.update(int(i), rng)
        return time.process_time() - start

    def n_tables(self) -> int:
        return sum(i == j for i, j in enumerate(self.links))


def growth(sizes: tuple[int, ...], rounds: int) -> str:
    header = ("N", "decay", "microseconds a customer and sweep", "tables", "<= 5")
    rows = []
    for n in sizes:
        for decay in (("window", 101.0), ("exponential", 4.0), "none"):
            chain = our_chain(points(n), decay)
            each = [seconds_a_sweep(chain, 5) / n * 1e6 for _ in range(rounds)]
            law = decay if isinstance(decay, str) else f"{decay[0]}, {decay[1]:g}"
            good = met(float(np.median(each)) <= TARGET)
            rows.append((f"{n:,}", law, spread(each), str(chain.n_tables), good))
    return markdown(header, rows)


def against_peer(sizes: tuple[int, ...], rounds: int) -> str:
    header = (
        "N", "ours, microseconds", "peer, microseconds", "peer / ours, by round",
        "mean tables: ours, peer",
    )  # fmt: skip
    rows = []
    for n in sizes:
        X, decay = points(n), ("window", 101.0)
        chain = our_chain(X, decay)
        weight = Distances.by_index(n).candidates(decay, ALPHA).weight
        peer, rng = Peer(X, chain.links, weight), np.random.default_rng(2)
        ours, theirs, tables = [], [], []
        for _ in range(rounds):
            ours.append(seconds_a_sweep(chain, 200) / n * 1e6)
            theirs.append(peer.sweep(rng) / n * 1e6)
            tables.append((chain.n_tables, peer.n_tables()))
        ratio = [b / a for a, b in zip(ours, theirs, strict=True)]
        seats = np.mean(tables, axis=0)
        rows.append(
            (
                str(n), spread(ours), spread(theirs, ",.0f"), spread(ratio, ",.0f"),
                f"{seats[0]:.1f}, {seats[1]:.1f}",
            )
        )  # fmt: skip
    return markdown(header, rows)


@click.command("ddcrp_sampler", help="Cost of a sweep, its growth, and a peer in plain Python.")
@click.option("--size", "sizes", multiple=True, type=int, default=(1_000, 10_000, 100_000))
@click.option("--peer-size", "peer_sizes", multiple=True, type=int, default=(300, 1000))
@click.option("--rounds", default=5, show_default=True)
def main(sizes: tuple[int, ...], peer_sizes: tuple[int, ...], rounds: int) -> None:
    """Print two tables."""
    click.echo("D = 2, CPU seconds of one thread, median (min to max).\n")
    with threadpool_limits(1):
        our_chain(points(10), "none")  # compiles
        click.echo(growth(sizes, rounds))
        click.echo("\nWindow of 100 customers:\n")
        click.echo(against_peer(peer_sizes, rounds))
    click.echo(f"\n{machine()}")


if __name__ == "__main__":
    main()
