"""Trees of components of binary rows, beside one path, a flat mixture and a Gaussian tree.

Planted trees: one vector at the root, three below it, nine leaves, whose loadings are random, so
that groups differ in how columns go together; or always 1, so that groups differ in their means.
Images: a pixel is 1 where it is dark. "Held out" is the mean log probability of a new row: by the
bound, and by importance sampling of the loadings with vectors and shares at their means; of the
flat mixture itself, at the best number of groups for the new rows.
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
from scipy.special import expit
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_limits

from benchmarks.machine import machine, markdown, spread
from benchmarks.streams import DATA
from research.ncrp_digits_numbers import digits
from streamddcrp import NestedCRPComponents, fit_nested_components

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

DEPTH, NODES, SIZES = 3, 32, (3, 9, 18, 36, 72)  # of paths; at most; of flat mixtures
N, D, SCALE = 1000, 40, 1.5  # rows to learn, columns, standard deviation of vectors in log odds
NEW, STARTS, STEPS = 200, 3, 60  # rows to test; of the flat mixture
DRAWS, ROUNDS, WIDER = 50, 15, 1.3  # of loadings; steps to their mode; variance, to be safe


def planted(seed: int, loadings: str) -> tuple[FloatArray, IntArray, FloatArray]:
    """Binary rows (N + NEW, D), their leaves, and the probability of a 1 in each cell."""
    rng = np.random.default_rng(seed)
    parts = [rng.normal(size=(n, D)) * SCALE for n in (1, 3, 9)]
    W = np.stack([np.stack([parts[0][0], parts[1][k // 3], parts[2][k]]) for k in range(9)])
    of = rng.choice(9, p=rng.dirichlet(np.full(9, 5.0)), size=N + NEW)
    x = rng.normal(size=(N + NEW, 3)) if loadings == "random" else np.ones((N + NEW, 3))
    p = expit(np.einsum("nl,nld->nd", x, W[of]) - 0.5 + 0.5 * rng.normal(size=D))
    return (rng.random(p.shape) < p).astype(np.float64), of, p


def images(data: Path, seed: int) -> dict[str, tuple[FloatArray, FloatArray]]:
    """Dark pixels of images to learn and to test, in a random order; pixels that differ."""
    rng = np.random.default_rng(seed)
    table = parquet.read_table(data / "semeion" / "semeion.parquet")
    numeric = [c for c in table.column_names if c not in {"seq", "label"}]
    semeion = rng.permutation(np.column_stack([table[c].to_numpy() for c in numeric]))
    train, test, _ = digits()
    train = rng.permutation(train)[:N]
    pairs = {
        "semeion": (semeion[len(semeion) // 5 :], semeion[: len(semeion) // 5]),
        "optdigits": (train > 7, test > 7),
    }
    out = {}
    for name, (X, test) in pairs.items():
        varied = X.mean(axis=0).clip(0.01, 0.99) == X.mean(axis=0)
        new = rng.permutation(test)[:NEW]
        out[name] = X[:, varied].astype(np.float64), new[:, varied].astype(np.float64)
    return out


def mixture(
    X: FloatArray, new: FloatArray, K: int, rng: np.random.Generator
) -> tuple[float, float, IntArray]:
    """Fit K groups of independent columns by EM: log likelihood, held-out score, groups."""
    resp = rng.dirichlet(np.full(K, 0.3), len(X))
    for _ in range(STEPS):
        n = resp.sum(axis=0)
        p = (resp.T @ X + 0.5) / (n + 1.0)[:, None]
        share = np.log((n + 1.0 / K) / (len(X) + 1.0))
        one, zero = np.log(p).T, np.log1p(-p).T
        log_s = X @ one + (1.0 - X) @ zero + share
        log_z = np.logaddexp.reduce(log_s, axis=1)
        resp = np.exp(log_s - log_z[:, None])
    held = np.logaddexp.reduce(new @ one + (1.0 - new) @ zero + share, axis=1)
    return float(log_z.sum()), float(held.mean()), resp.argmax(axis=1)


def expected(model: NestedCRPComponents, X: FloatArray) -> FloatArray:
    """Mean and vectors times expected loadings: what a Gaussian tree says of each cell."""
    tree = model.tree()
    vectors, nodes = {}, [tree]
    while nodes:
        node = nodes.pop()
        vectors[node["id"]] = node["vector"]
        nodes += node["children"]
    out = np.tile(tree["mean"], (len(X), 1))
    for i, row in enumerate(X):
        for node, x in model.transform_one(dict(enumerate(row)))["loadings"].items():
            out[i] += x * vectors[node]
    return out


def sampled(model: NestedCRPComponents, new: FloatArray, rng: np.random.Generator) -> float:
    """Estimate the mean log probability of rows, their loadings drawn about the modes."""
    tree = model._tree
    assert tree is not None
    M, share = tree.weights.M, tree.weights.mass / tree.weights.mass.sum()
    out = []
    for k in np.flatnonzero(share > 1e-4).tolist():
        W = M[tree.paths()[k, : tree.level[k]] + 1]
        y = np.zeros((len(new), len(W)))
        for _ in range(ROUNDS):  # Newton's
            p = expit(M[0] + y @ W)
            H = np.einsum("nd,id,jd->nij", p * (1.0 - p), W, W) + np.eye(len(W))
            y += np.linalg.solve(H, ((new - p) @ W.T - y)[:, :, None])[:, :, 0]
        C = np.linalg.cholesky(np.linalg.inv(H) * WIDER)
        e = rng.normal(size=(DRAWS, *y.shape))
        x = y + np.einsum("nij,snj->sni", C, e)
        psi = M[0] + x @ W
        log_w = (new * psi - np.logaddexp(0.0, psi)).sum(axis=2)
        log_w += 0.5 * (e**2 - x**2).sum(axis=2)
        log_w += np.log(np.diagonal(C, axis1=1, axis2=2)).sum(axis=1)
        out.append(np.logaddexp.reduce(log_w) - np.log(DRAWS) + np.log(share[k]))
    return float(np.logaddexp.reduce(out).mean())


def agreement(of: IntArray | None, groups: IntArray) -> float:
    """ARI with the true groups; NaN where these are not known."""
    return np.nan if of is None else float(adjusted_rand_score(of, groups))


def compare(
    X: FloatArray, new: FloatArray, seed: int, of: IntArray | None, p: FloatArray | None
) -> dict[str, tuple[float, ...]]:
    """Held-out scores, ARI of groups, error of probabilities, nodes, CPU s of each method."""
    out = {}
    runs = {"binary tree": ("bernoulli", NODES), "one path of three vectors": ("bernoulli", DEPTH)}
    if p is not None:
        runs["Gaussian tree"] = ("gaussian", NODES)
    for name, (likelihood, limit) in runs.items():
        start = time.process_time()
        fit = fit_nested_components(
            X, depth=DEPTH, max_nodes=limit, likelihood=likelihood, seed=seed
        )
        seconds = time.process_time() - start
        model, binary = fit.model, likelihood == "bernoulli"
        held = -np.mean([model.score_one(dict(enumerate(x))) for x in new]) if binary else np.nan
        ari = agreement(of, fit.paths[:, -1])
        error = np.nan
        if p is not None:
            found = model.reconstruct_many(X) if binary else expected(model, X).clip(0.0, 1.0)
            error = float(np.sqrt(((found - p) ** 2).mean()))
        also = sampled(model, new, np.random.default_rng(seed)) if binary else np.nan
        out[name] = (float(held), also, ari, error, model.n_nodes, seconds)
    rng, start = np.random.default_rng(seed), time.process_time()
    flat = [
        max((mixture(X, new, K, rng) for _ in range(STARTS)), key=lambda one: one[0])
        for K in SIZES
    ]  # fmt: skip
    ari = max(agreement(of, groups) for *_, groups in flat)
    best = int(np.argmax([held for _, held, _ in flat]))
    seconds = time.process_time() - start
    held = flat[best][1]
    out["flat mixture, at its best"] = held, held, ari, np.nan, SIZES[best], seconds
    return out


@click.command("nested_binary")
@click.option(
    "--data", type=click.Path(path_type=Path), default=DATA, help="Folder of shared data."
)
@click.option("--seeds", default=5, show_default=True, help="Trees, or orders of the images.")
@click.option("--first", default=5, show_default=True, help="First seed; 0 to 2 served to choose.")
def main(data: Path, seeds: int, first: int) -> None:
    """Trees of components of binary rows, beside a flat mixture and a Gaussian tree."""
    logging.disable(logging.WARNING)  # that all nodes are in use
    click.echo(machine())
    runs: dict[str, list[dict[str, tuple[float, ...]]]] = {}
    with threadpool_limits(1):
        for seed in range(first, first + seeds):
            some: dict[str, tuple[Any, ...]] = {}
            for loadings in ("random", "fixed"):
                T, of, p = planted(seed, loadings)
                some[f"planted, {loadings} loadings"] = T[:N], T[N:], of[:N], p[:N]
            for name, (X, new) in images(data, seed).items():  # whose groups are not known
                some[name] = X, new, None, None
            for name, (X, new, of, p) in some.items():
                runs.setdefault(name, []).append(compare(X, new, seed, of, p))
                click.echo(f"{seed} {name}: {runs[name][-1]}", err=True)
    logging.disable(logging.NOTSET)
    rows = []
    for name, found in runs.items():
        for method in found[0]:
            columns = zip(*(one[method] for one in found), strict=True)
            forms = (".2f", ".2f", ".3f", ".3f", ".0f", ".1f")
            cells = [spread(c, f) for c, f in zip(columns, forms, strict=True)]
            rows.append([name, method, *("" if "nan" in cell else cell for cell in cells)])
    header = ("by the bound, nats", "sampled", "ARI of leaves", "error", "nodes or groups", "CPU s")
    click.echo("\n" + markdown(("data", "method", *header), rows))


if __name__ == "__main__":
    main()
