"""The shape of trees: moves that the bound judges beside the rule of Wang and Blei (2009).

Section 3.2: paths are opened at random, paths with less than 1e-6 rows dropped, paths merged that
hold the same rows (J > .95); nothing is undone. Trees of components have both. A document of
`fit_nested_topics` has one path, so that no two paths hold the same; there the rule stands on the
paper's own coordinate ascent, whose documents are then planted in a model that scores words. The
bounds are those of the same model, and may be compared.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from pyarrow import parquet
from scipy import sparse
from threadpoolctl import threadpool_limits

from benchmarks.machine import machine, markdown, spread
from benchmarks.streams import DATA
from research.benchmarks.nested_ascent import Ascent
from research.ncrp_digits_numbers import digits
from research.nested_draws import plant
from research.sampled_moves import fit_sampled, likeness
from research.topic_corpora import TopicCorpus, bag_of_words
from streamddcrp import fit_nested_components, fit_nested_topics
from streamddcrp.models.trees.kernels.gain import fit_eta
from streamddcrp.models.trees.nested_topics import NestedCRPTopics
from streamddcrp.models.trees.tree import paths_of, sorted_order, with_ancestors

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

TABLES = {"semeion": "semeion", "image segments": "image_segments"}
BAGS = {"AP": "ap", "Political blogs": "poliblog", "Cora, abstracts": "cora_abstracts"}
NO_FEATURES = {"seq", "label"}
DEPTH, LIMITS = 3, (14, 64)  # nodes: as the published tree of digits, and more
ADDED = 25  # documents that are added at a time, each with a path of its own
ROUNDS = 30  # of the rule, at most
SEVERAL, DELTA, SAME, SETTLED = 5, 1e-6, 0.95, 1e-3  # of the paper; "several" is ours
PRIORS: dict[str, dict[str, Any]] = {
    "ours": {"eta": (1.0, 0.2, 0.1), "alpha": (5.0, 2.0, 0.5)},
    "the paper's": {"eta": 1.0, "alpha": (50.0, 20.0, 10.0)},
}


def points(data: Path, seed: int) -> dict[str, tuple[FloatArray, FloatArray]]:
    """Rows to learn, in a random order, and to test: a random fifth, but of the digits."""
    rng = np.random.default_rng(seed)
    train, test, _ = digits()
    out = {"optdigits": (train[rng.permutation(len(train))], test)}
    for name, folder in TABLES.items():
        table = parquet.read_table(data / folder / f"{folder}.parquet")
        numeric = [c for c in table.column_names if c not in NO_FEATURES]
        X = np.column_stack([table[c].to_numpy() for c in numeric]).astype(np.float64)
        X = X[:, X.std(axis=0) > 0]
        X = rng.permutation((X - X.mean(axis=0)) / X.std(axis=0))
        out[name] = X[len(X) // 5 :], X[: len(X) // 5]
    return out


def components(data: Path, seeds: int) -> list[list[str]]:
    """Fit trees of components with either kind of moves."""
    rows = []
    runs = [points(data, seed) for seed in range(seeds)]
    for name in runs[0]:
        for limit in LIMITS:
            for moves in ("judged", "sampled"):
                found = []
                for seed, run in enumerate(runs):
                    start = time.process_time()
                    options = {"depth": DEPTH, "max_nodes": limit, "seed": seed}
                    if moves == "sampled":
                        model, trace = fit_sampled(run[name][0], **options)
                    else:
                        fit = fit_nested_components(run[name][0], **options)
                        model, trace = fit.model, fit.bound_trace
                    seconds = time.process_time() - start
                    scores = [model.score_one(dict(enumerate(x))) for x in run[name][1]]
                    fall = float(max(0.0, -np.diff(trace).min()))
                    found.append((trace[-1], -np.mean(scores), model.n_nodes, fall, seconds))
                rows.append([name, str(limit), moves, *cells(found)])
                click.echo(" | ".join(rows[-1]), err=True)
    return rows


def cells(found: list[tuple[float, ...]]) -> list[str]:
    """Bound, score, nodes, largest fall and seconds of some runs: medians, and ranges."""
    forms = (",.0f", ".3f", ".0f", ".1f", ".1f")
    return [spread(c, f) for c, f in zip(zip(*found, strict=True), forms, strict=True)]


class Ruled:
    """The paper's coordinate ascent on documents (N, V), with the rule of its section 3.2."""

    def __init__(self, X: Any, eta: Any, alpha: Any, seed: int) -> None:
        self.X, self.rng = sparse.csr_array(X), np.random.default_rng(seed)
        L = len(alpha)
        root = np.array([-1]), np.array([1])
        eta = np.broadcast_to(np.asarray(eta, float), L).copy()
        start = np.zeros((X.shape[1], 1)), np.zeros(1)
        self.tree = Ascent(*root, np.asarray(alpha, float), eta, 1.0, *start)
        self.falls: list[float] = []

    def sweep(self, n: int, times: int = 1) -> float:
        """Sweep over the first ``n`` documents; return the bound before the last global step."""
        some, bound = self.X[:n], -np.inf
        for _ in range(times):
            found = self.tree.expect(
                some.indptr.astype(np.int64), some.indices.astype(np.int64),
                some.data.astype(float), rounds=30, tol=1e-4,
            )  # fmt: skip
            bound = found.local - self.tree.divergence()
            self.q = found.q
            self.tree.step(found)
            self._keep(np.ones(len(self.tree.parent), bool))
        return bound

    def open(self, p: int, n: int) -> None:
        """Open a path below a node, whose new topics share the words of a document."""
        t = self.tree
        K, L, words = len(t.parent), len(t.alpha), self.X[[n]].toarray()[0]
        missing = L - int(t.level[p])
        line = np.arange(K, K + missing)
        t.parent = np.concatenate([t.parent, [p], line[:-1]])
        t.level = np.concatenate([t.level, t.level[p] + 1 + np.arange(missing)])
        share = t.alpha[L - missing :] / t.alpha.sum()
        t.counts = np.concatenate([t.counts, np.outer(words, share)], axis=1)
        t.mass = np.concatenate([t.mass, np.zeros(missing - 1), [1.0]])

    def _keep(self, leaves: NDArray[np.bool_]) -> None:
        """Drop the other leaves, and what only led to them; siblings by size."""
        t = self.tree
        down = np.argsort(t.level, kind="stable")
        back = np.argsort(down)
        parent = np.where(t.parent[down] < 0, -1, back[t.parent[down]])
        full = leaves & (t.level == len(t.alpha))
        kept = with_ancestors(t.parent, t.level, full)[down]
        order = sorted_order(parent, t.level[down], t.mass[down], kept)
        slots, mass = down[order.slots], np.zeros(len(order.slots))
        np.add.at(mass, order.to, t.mass[down])
        t.parent, t.level, t.counts, t.mass = order.parent, order.level, t.counts[:, slots], mass
        self.q = self.q[:, slots]

    def tidy(self) -> None:
        """Drop paths with next to no documents, and merge paths that hold the same ones."""
        t = self.tree
        leaves = (t.level == len(t.alpha)) & (t.mass >= DELTA)
        alike, paths = likeness(self.q), paths_of(t.parent, t.level, len(t.alpha))
        for i, j in np.argwhere(np.triu(alike > SAME, 1)).tolist():
            if leaves[i] and leaves[j]:
                t.counts[:, paths[i]] += t.counts[:, paths[j]] * (paths[i] != paths[j])
                t.mass[i], t.mass[j], leaves[j] = t.mass[i] + t.mass[j], 0.0, False
        self._keep(leaves)

    def grow(self) -> None:
        """Let some documents, and one inner node, open paths."""
        q, level, L = self.q, self.tree.level, len(self.tree.alpha)
        inner = np.where(level < L, q.sum(axis=0), 0.0)
        p = int(self.rng.choice(len(inner), p=inner / inner.sum()))
        seeds = [(p, int(self.rng.choice(len(q), p=q[:, p] / q[:, p].sum())))]
        for n in self.rng.choice(len(q), min(SEVERAL, len(q)), replace=False).tolist():
            seeds.append((int(self.rng.choice(q.shape[1], p=q[n] / q[n].sum())), n))
        for p, n in seeds:
            if level[p] < L:
                self.open(p, n)

    def fit(self) -> float:
        """Add documents by and by, each with a path; then grow, sweep, drop and merge."""
        N, before = self.X.shape[0], -np.inf
        for n in range(0, N, ADDED):
            for d in range(n, min(n + ADDED, N)):
                self.open(0, d)
            self.q = np.zeros((0, len(self.tree.parent)))
            self.sweep(min(n + ADDED, N), 2)
            self.tidy()
        for _ in range(ROUNDS):
            self.grow()
            self.q = np.zeros((0, len(self.tree.parent)))
            self.sweep(N, 3)
            self.tidy()
            now = self.sweep(N)
            self.falls.append(max(0.0, before - now))
            if abs(now - before) < SETTLED * abs(now):
                break
            before = now
        return now

    def planted(self, **options: Any) -> NestedCRPTopics:
        """Return a model whose documents are on their likeliest paths, levels as expected there.

        The prior of words by which it scores is learned from its topics, as `refine` does.
        """
        t, X = self.tree, self.X
        paths = paths_of(t.parent, t.level, len(t.alpha))
        leaves = np.flatnonzero(t.level == len(t.alpha))
        ends = leaves[self.q[:, leaves].argmax(axis=1)]
        rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        eta = t.eta[t.level - 1]
        topics = (t.counts + eta) / (t.counts.sum(axis=0) + X.shape[1] * eta)
        phi = t.alpha * topics[X.indices[:, None], paths[ends][rows]]
        phi *= (X.data / phi.sum(axis=1))[:, None]
        levels = [sparse.csr_array((x, X.indices, X.indptr), shape=X.shape) for x in phi.T]
        model = NestedCRPTopics(**options, window=X.shape[0])
        plant(model, X, paths[ends], levels)
        own = model._tree
        fit_eta(
            own.counts, own.rows, own.level, own.n_nodes, own.n_words, own.scale,
            own.settings.eta, 5, 1e-2, own.learned_eta,
        )  # fmt: skip
        return model


def topics(corpus: TopicCorpus, seed: int, options: dict[str, Any]) -> list[tuple[float, ...]]:
    """Bound, nats a held-out word, nodes, largest fall and CPU seconds of either kind of moves."""
    out, held = [], corpus.held.sum()
    start = time.process_time()
    fit = fit_nested_topics(corpus.train, n_starts=1, **options)
    seconds = time.process_time() - start
    score = fit.model.complete_many(corpus.seen, corpus.held).sum() / held
    out.append((fit.bound_trace[-1], score, fit.model.n_nodes, 0.0, seconds))
    start = time.process_time()
    ruled = Ruled(corpus.train, seed=seed, **options)
    bound = ruled.fit()
    seconds = time.process_time() - start
    model = ruled.planted(**options)
    score = model.complete_many(corpus.seen, corpus.held).sum() / held
    out.append((bound, score, len(ruled.tree.parent), max(ruled.falls), seconds))
    return out


@click.command("nested_moves")
@click.option(
    "--data", type=click.Path(path_type=Path), default=DATA, help="Folder of shared data."
)
@click.option("--seeds", default=3, show_default=True, help="Orders and splits.")
@click.option("--documents", default=100, show_default=True, help="Of each corpus.")
def main(data: Path, seeds: int, documents: int) -> None:
    """Trees whose moves are judged by the bound, beside the rule of Wang and Blei."""
    logging.disable(logging.WARNING)  # that all nodes are in use
    click.echo(machine())
    header = ("bound", "held out, nats", "nodes", "largest fall", "CPU s")
    with threadpool_limits(1):
        rows = []
        for name, folder in BAGS.items():
            for prior, options in PRIORS.items():
                runs = []
                for seed in range(seeds):
                    corpus = bag_of_words(data / folder, documents, seed)
                    runs.append(topics(corpus, seed, options))
                for moves, some in zip(("judged", "sampled"), zip(*runs, strict=True), strict=True):
                    rows.append([name, prior, moves, *cells(list(some))])
                    click.echo(" | ".join(rows[-1]), err=True)
        click.echo("\n" + markdown(("corpus", "priors", "moves", *header), rows))
        table = components(data, seeds)
        click.echo("\n" + markdown(("data", "max_nodes", "moves", *header), table))
    logging.disable(logging.NOTSET)


if __name__ == "__main__":
    main()
