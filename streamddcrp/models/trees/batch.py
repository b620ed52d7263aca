"""Trees of topics and of components fitted to a whole data set."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import sparse
from tqdm import tqdm

from streamddcrp.arguments import checked, generator
from streamddcrp.cards import ResultCard
from streamddcrp.data.batches import sliceable
from streamddcrp.data.documents import Word, read_documents, sparse_rows
from streamddcrp.errors import SchemaError
from streamddcrp.models.trees.nested_components import NestedCRPComponents
from streamddcrp.models.trees.nested_topics import NestedCRPTopics
from streamddcrp.typing import FloatArray, IntArray
from streamddcrp.validation import whole


@dataclass(frozen=True, slots=True)
class NestedTopicsFit(ResultCard):
    """A tree of topics of a corpus.

    Attributes
    ----------
    model : NestedCRPTopics
        The model, which can predict and continue to learn.
    paths : ndarray of int64, shape (N, depth)
        Ids of the nodes of each document's path, root first; -1 for a document without words.
    bound_trace : ndarray
        Evidence lower bound after every pass; it never decreases.
    """

    model: NestedCRPTopics
    paths: IntArray
    bound_trace: FloatArray


@dataclass(frozen=True, slots=True)
class NestedComponentsFit(ResultCard):
    """A tree of components of a data set: as `NestedTopicsFit`.

    ``bound_trace`` covers the first pass, every sweep and every growth.
    """

    model: NestedCRPComponents
    paths: IntArray
    bound_trace: FloatArray


@checked
def fit_nested_topics(
    documents: Any,
    *,
    n_starts: int = 3,
    max_sweeps: int = 20,
    tol: float = 1e-4,
    seed: int | None = 0,
    progress: bool = False,
    **options: Any,
) -> NestedTopicsFit:
    """Fit a tree of topics to a corpus: a stream's pass, then passes over all documents.

    In later passes each document is placed again, small nodes are dissolved, leaves split and
    siblings merged; moves that lower the bound are undone.

    Parameters
    ----------
    documents
        As for `NestedCRPTopics.learn_many`; at least one.
    n_starts : int, default 3
        Orders of the documents, the given one first; the fit with the largest bound is returned.
    max_sweeps, seed, progress
        As for `fit_seqddcrp`; sweeps are passes after the first.
    tol : float, default 1e-4
        Stop when a pass raises the bound by less than this fraction of it.
    **options
        Options of `NestedCRPTopics` except ``window`` and ``forgetting``.

    Examples
    --------
    >>> from streamddcrp import fit_nested_topics
    >>> subjects = ["cat purr milk fur paw", "boat sail mast oar hull", "oven dough yeast loaf rye",
    ...             "chess rook pawn mate king", "rain cloud storm wind hail"]
    >>> fit = fit_nested_topics(["the day was long " + 4 * (w + " ") for w in subjects * 12])
    >>> len(set(fit.paths[::5, -1]))  # all cats on one path
    1
    """
    max_sweeps, n_starts = whole("max_sweeps", max_sweeps), whole("n_starts", n_starts, 1)
    of_counts = sparse.issparse(documents) or isinstance(documents, np.ndarray)
    documents = sparse_rows(documents) if of_counts else read_documents(documents)
    n = documents.shape[0] if hasattr(documents, "shape") else len(documents)
    if not n:
        raise SchemaError("documents: expected at least one, got none")
    fits = [
        _topics_in_order(documents, at, max_sweeps, tol, options)
        for at in _orders(n, n_starts, seed, progress=progress)
    ]
    return max(fits, key=lambda fit: float(fit.bound_trace[-1]))


def _orders(n: int, n_starts: int, seed: int | None, *, progress: bool) -> Iterator[IntArray]:
    """Yield orders of the rows, the given one first."""
    rng = generator(seed)
    for start in tqdm(range(n_starts), unit=" starts", disable=not progress):
        yield rng.permutation(n) if start else np.arange(n)


def _topics_in_order(
    documents: Any, at: IntArray, max_sweeps: int, tol: float, options: dict[str, Any]
) -> NestedTopicsFit:
    model = NestedCRPTopics(**{**options, "window": len(at)})
    if isinstance(documents, list):
        counts: list[dict[Word, float]] = [{} for _ in documents]
        for out, d in zip(counts, at.tolist(), strict=True):
            for word, count in documents[d]:
                out[word] = out.get(word, 0.0) + count
        model.learn_many(counts)
    else:
        model.learn_many(documents[at])
    return climb(model, at, max_sweeps, tol)


def climb(model: NestedCRPTopics, at: IntArray, max_sweeps: int, tol: float) -> NestedTopicsFit:
    """Pass over the documents, which came in the order ``at``, while the bound rises."""
    trace = [model.objective]
    for _ in range(max_sweeps):
        before = model.to_bytes()
        model.refine()
        if model.objective < trace[-1]:  # the beam of places is narrow: rarely, a pass loses
            model = NestedCRPTopics.from_bytes(before)
            break
        trace.append(model.objective)
        if trace[-1] - trace[-2] < tol * abs(trace[-2]):
            break
    paths = np.empty((len(at), model.depth), np.int64)
    paths[at] = model.window_paths()
    return NestedTopicsFit(model, paths, np.array(trace))


@checked
def fit_nested_components(
    X: Any,
    *,
    n_starts: int = 1,
    max_sweeps: int = 200,
    tol: float = 1e-5,
    seed: int | None = 0,
    progress: bool = False,
    **options: Any,
) -> NestedComponentsFit:
    """Fit a tree of components to a data set: a stream's pass, then coordinate ascent with growth.

    After the pass all points are in the window, and their bound never decreases.

    Parameters
    ----------
    X : array_like or table of shape (N, D)
        At least two points without missing values; of binary rows 0 and 1.
    n_starts : int, default 1
        Orders of the points, the given one first; the fit with the largest bound is returned.
    max_sweeps, seed, progress
        As for `fit_seqddcrp`.
    tol : float, default 1e-5
        As for `NestedCRPComponents.refine`.
    **options
        Of `NestedCRPComponents`; ``window`` and ``warmup`` are those of the pass.

    Examples
    --------
    >>> import numpy as np
    >>> from streamddcrp import fit_nested_components
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 1)) * np.eye(5)[rng.integers(0, 2, 300)]
    >>> fit = fit_nested_components(X + 0.01 * rng.normal(size=X.shape), depth=2, max_nodes=4)
    >>> bool((np.diff(fit.bound_trace) > -1e-6).all())
    True
    """
    max_sweeps, n_starts = whole("max_sweeps", max_sweeps), whole("n_starts", n_starts, 1)
    X = sliceable(X)
    n = len(X)
    if n < 2:
        raise SchemaError(f"X: expected at least two points, got {n}")
    options["warmup"] = min(int(options.get("warmup", 256)), n)
    options["seed"] = int(generator(seed).integers(1 << 31)) if seed is None else seed
    fits: list[tuple[list[float], NestedCRPComponents]] = []
    for at in _orders(n, n_starts, seed, progress=progress):
        model = NestedCRPComponents(**options)
        rows = X
        if fits:
            rows = X.take(at) if isinstance(X, pa.Table) else [X[i] for i in at.tolist()]
        model.learn_many(rows)
        model.recall(rows)
        fits.append((model.refine(max_sweeps, tol), model))
    trace, model = max(fits, key=lambda fit: fit[0][-1])
    return NestedComponentsFit(model, model.paths_many(X), np.array(trace))
