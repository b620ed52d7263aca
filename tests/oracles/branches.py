"""The move of a branch as a matrix over all link vectors of small data, by its definition."""

from collections.abc import Callable

import numpy as np

from tests.oracles.sampling import exact_links

Links = tuple[int, ...]


def below(links: Links, i: int) -> set[int]:
    """Return i and all whose path leads to i."""
    found = {i}
    while more := {j for j, k in enumerate(links) if k in found} - found:
        found |= more
    return found


def outcomes(links: Links, i: int) -> list[Links]:
    """Cut the link of i; any u of S takes a new link and the way from u to i turns around."""
    out = []
    for u in sorted(below(links, i)):
        way = [u]
        while way[-1] != i:
            way.append(links[way[-1]])
        turned = list(links)
        for a, b in zip(way[1:], way[:-1], strict=True):
            turned[a] = b
        for j in range(len(links)):
            turned[u] = j
            out.append(tuple(turned))
    return out


def branch_moves(
    log_prior: np.ndarray, log_marginal: Callable[[list[int]], float]
) -> tuple[dict[Links, int], np.ndarray, np.ndarray]:
    """Return the place of each link vector, its posterior (M,), and p(next | now, i), (N, M, M)."""
    place, probs = exact_links(log_prior, log_marginal)
    moves = np.zeros((len(log_prior), len(probs), len(probs)))
    for i, matrix in enumerate(moves):
        for links, k in place.items():
            possible = [place[c] for c in outcomes(links, i) if c in place]
            # a cycle of two comes out twice, from either of them, and may be cut at either
            np.add.at(matrix[k], possible, probs[possible] / probs[possible].sum())
    return place, probs, moves
