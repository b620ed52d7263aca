"""Table 2 of Wang and Blei (2009): how well digits are rebuilt from a tree of components."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq

from streamddcrp.errors import ConfigError
from streamddcrp.models.trees.batch import fit_nested_components
from streamddcrp.models.trees.components import ComponentTree
from streamddcrp.models.trees.nested_components import NestedCRPComponents
from streamddcrp.typing import FloatArray

from .data import shared_file

DEPTHS = (2, 3, 4, 5)
# Depth: nodes, mean squared error of training and of test images. The table as printed in text form
# is permuted; this order is the one that its PCA columns, which can be recomputed, give.
PUBLISHED = {
    2: (9, 631.6, 699.4), 3: (14, 559.8, 585.6), 4: (18, 463.4, 506.1), 5: (22, 384.8, 461.8)
}  # fmt: skip
_HERE = 1200  # images of scikit-learn's digits that are learned, of 1,797


class Digits(NamedTuple):
    """Images (N, 64) of values 0 to 16 to learn and to test on, and where they are from."""

    train: FloatArray
    test: FloatArray
    source: str


class Fit(NamedTuple):
    """A model of some depth with its nodes, errors and CPU seconds."""

    method: str
    depth: int
    nodes: int
    train: float
    test: float
    seconds: float
    model: Any


def digits(small: bool = False) -> Digits:
    """Return optdigits, 3,823 and 1,797 images; if ``small``, scikit-learn's 1,797, cut in two."""
    if not small:
        instead = "Or take the 1,797 digits of scikit-learn by --small."
        files = [shared_file(f"optdigits/{part}.parquet", instead) for part in ("train", "test")]
        return Digits(*map(_images, map(pq.read_table, files)), "optdigits")
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        message = "--small needs scikit-learn: pip install scikit-learn"
        raise ConfigError(message) from error
    X = np.asarray(load_digits().data, dtype=np.float64)
    return Digits(X[:_HERE], X[_HERE:], "scikit-learn's digits")


def _images(table: Any) -> FloatArray:
    return np.column_stack([table[f"p{i:02d}"].to_numpy() for i in range(64)]).astype(np.float64)


def pca_error(data: Digits, n: int) -> tuple[float, float]:
    """Mean squared error of images projected on ``n`` principal components of those learned."""
    mean = data.train.mean(axis=0)
    axes = np.linalg.svd(data.train - mean, full_matrices=False)[2][:n]
    train, test = (X - mean - (X - mean) @ axes.T @ axes for X in (data.train, data.test))
    return _error(train), _error(test)


def _error(residual: FloatArray) -> float:
    return float((residual**2).sum(axis=1).mean())


@contextmanager
def _limits_are_meant() -> Iterator[None]:
    """Keep trees from saying that they have no more nodes than the published ones."""
    log = logging.getLogger(ComponentTree.__module__)
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


def fits(data: Digits, seed: int = 0, depths: tuple[int, ...] = DEPTHS) -> Iterator[Fit]:
    """Learn the images once in a random order, and then by sweeps over them, at every depth."""
    X = data.train[np.random.default_rng(seed).permutation(len(data.train))]
    for depth in depths:
        NestedCRPComponents(depth=depth).learn_many(X[:256])  # compiles
        model = NestedCRPComponents(depth=depth, max_nodes=PUBLISHED[depth][0])
        start = time.process_time()
        with _limits_are_meant():
            model.learn_many(X)
        yield _fit("stream, one pass", depth, model, data, time.process_time() - start)
        start = time.process_time()
        with _limits_are_meant():
            batch = fit_nested_components(X, depth=depth, max_nodes=PUBLISHED[depth][0]).model
        yield _fit("batch", depth, batch, data, time.process_time() - start)


def _fit(method: str, depth: int, model: Any, data: Digits, seconds: float) -> Fit:
    train, test = (_error(X - model.reconstruct_many(X)) for X in (data.train, data.test))
    return Fit(method, depth, model.n_nodes, train, test, seconds, model)
