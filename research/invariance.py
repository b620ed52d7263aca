"""Blei and Frazier (2011): which ddCRPs are marginally invariant.

A prior of partitions is marginally invariant if leaving a customer out of the process gives what
summing over its seat gives. All vectors of links of a few customers are visited, so that the
defect, the largest difference between the two in the probability of a partition, is exact.
"""

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np

from streamddcrp.models.ddcrp.distances import Distances
from streamddcrp.typing import FloatArray, IntArray

N = 5
ALPHA = 0.7
BLOCKS = np.array([0, 1, 0, 1, 0])  # who can be linked, all or nothing
APART = np.where(BLOCKS[:, None] == BLOCKS, 1.0, np.inf)
CASES: dict[str, tuple[Distances, object]] = {
    "sequential, no decay: the CRP": (Distances.by_index(N), "none"),
    "sequential, window that holds all or nothing": (
        Distances.by_matrix(APART, sequential=True), ("window", 2.0),
    ),
    "sequential, sliding window of 3": (Distances.by_index(N), ("window", 3.0)),
    "sequential, exponential, scale 2": (Distances.by_index(N), ("exponential", 2.0)),
    "sequential, logistic, location 2": (Distances.by_index(N), ("logistic", 2.0)),
    "links both ways, no decay": (Distances.by_index(N, sequential=False), "none"),
    "links both ways, all or nothing": (Distances.by_matrix(APART), ("window", 2.0)),
}  # fmt: skip
Partition = tuple[int, ...]


def partition(links: tuple[int, ...], kept: IntArray) -> Partition:
    """Return the tables of the customers kept, each named after its first one."""
    label = list(range(len(links)))
    for i, j in enumerate(links):
        a, b = sorted((label[i], label[j]))
        label = [a if k == b else k for k in label]
    first: dict[int, int] = {}
    return tuple(first.setdefault(label[i], len(first)) for i in kept)


def partitions(weights: FloatArray, kept: IntArray) -> dict[Partition, float]:
    """Return the probability of each partition of the customers kept, links of all summed over.

    ``weights`` (N, N) of links, alpha on the diagonal.
    """
    prior = weights / weights.sum(axis=1, keepdims=True)
    found: dict[Partition, float] = {}
    for links in product(*(np.flatnonzero(row).tolist() for row in prior)):
        p = float(np.prod(prior[np.arange(len(prior)), links]))
        z = partition(links, kept)
        found[z] = found.get(z, 0.0) + p
    return found


def defect(distances: Distances, decay: object, alpha: float = ALPHA) -> float:
    """Return the largest change of a partition's probability by leaving some customer out."""
    weights = np.exp(distances.candidates(decay, alpha).log_prior())
    weights *= alpha / np.diag(weights)[:, None]
    n, worst = len(weights), 0.0
    for out in range(n):
        kept = np.delete(np.arange(n), out)
        summed = partitions(weights, kept)
        without = partitions(weights[np.ix_(kept, kept)], np.arange(n - 1))
        for z in summed.keys() | without.keys():
            worst = max(worst, abs(summed.get(z, 0.0) - without.get(z, 0.0)))
    return worst


def run(folder: Path) -> Iterator[str]:
    """Yield the table, and write it to the folder."""
    lines = ["| links | defect | marginally invariant |", "| --- | --- | --- |"]
    for name, (distances, decay) in CASES.items():
        found = defect(distances, decay)
        lines.append(f"| {name} | {found:.4f} | {'yes' if found < 1e-12 else 'no'} |")
    (folder / "invariance.md").write_text("\n".join(lines) + "\n")
    yield f"Five customers, alpha {ALPHA:g}; all links visited, nothing is estimated.\n"
    yield from lines
