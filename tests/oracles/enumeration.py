"""Exact posterior of a small ddCRP mixture: every vector of links is visited.

Sequential or general, whatever the log prior allows. N! vectors for a sequential prior of N
customers (720 at N = 6), N^N for a general one.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
from scipy.special import logsumexp, multigammaln


@dataclass(frozen=True)
class Enumeration:
    """Moments of the links of N customers, before and after seeing the data."""

    log_evidence: float  # log p(x)
    expected_n_tables: float  # E[#tables | x]
    n_tables_probs: np.ndarray  # (N,): P(1, ..., N tables | x)
    links: np.ndarray  # (N, N): p(c_i = j | x)
    together: np.ndarray  # (N, N): P(i and j at one table | x)
    prior_expected_n_tables: float  # E[#tables]
    prior_n_tables_probs: np.ndarray  # (N,)
    n_configurations: int


def link_vectors(log_prior: np.ndarray) -> Iterator[tuple[tuple[int, ...], float]]:
    """Yield every possible vector of links with its log prior probability."""
    options = [np.flatnonzero(row > -np.inf).tolist() for row in log_prior]
    for links in product(*options):
        yield links, sum(log_prior[i, j] for i, j in enumerate(links))


def tables(links: tuple[int, ...]) -> list[int]:
    """Label the customers by the smallest index of their table: connected by links, any way."""
    labels = list(range(len(links)))
    for i, j in enumerate(links):
        a, b = sorted((labels[i], labels[j]))
        labels = [a if label == b else label for label in labels]
    return labels


def enumerate_links(
    log_prior: np.ndarray, log_marginal: Callable[[list[int]], float]
) -> Enumeration:
    """Sum over all link vectors.

    log_prior : (N, N), log p(c_i = j), rows normalised, -inf where a link is impossible.
    log_marginal : log marginal likelihood of the customers at one table, by their indices.
    """
    n = len(log_prior)

    @cache
    def of_table(members: tuple[int, ...]) -> float:
        return log_marginal(list(members))

    log_p, log_joint, vectors, labellings = [], [], [], []
    for links, log_p_links in link_vectors(np.asarray(log_prior, dtype=float)):
        labels = tables(links)
        members = [tuple(i for i in range(n) if labels[i] == k) for k in sorted(set(labels))]
        log_p.append(log_p_links)
        log_joint.append(log_p_links + sum(map(of_table, members)))
        vectors.append(links)
        labellings.append(labels)
    log_evidence = logsumexp(log_joint)
    prior = np.exp(np.array(log_p) - logsumexp(log_p))
    posterior = np.exp(np.array(log_joint) - log_evidence)
    n_tables = np.array([len(set(labels)) for labels in labellings])
    labels = np.array(labellings)
    counts = np.arange(1, n + 1)
    return Enumeration(
        log_evidence=float(log_evidence),
        expected_n_tables=float(posterior @ n_tables),
        n_tables_probs=np.array([posterior[n_tables == k].sum() for k in counts]),
        links=np.array(
            [[posterior[np.array(vectors)[:, i] == j].sum() for j in range(n)] for i in range(n)]
        ),
        together=np.einsum("v,vij->ij", posterior, labels[:, :, None] == labels[:, None, :]),
        prior_expected_n_tables=float(prior @ n_tables),
        prior_n_tables_probs=np.array([prior[n_tables == k].sum() for k in counts]),
        n_configurations=len(vectors),
    )


def enumerate_recall(
    weight: np.ndarray, alpha: float, gamma: float, log_marginal: Callable[[tuple[int, ...]], float]
) -> tuple[float, np.ndarray]:
    """Sum over all links, openings and atoms of a sequential ddCRP whose openers may recall.

    weight : (N, N), decay weights of links to earlier customers.
    Returns the log evidence and P(0, ..., N atoms | x).
    """
    found: list[tuple[float, int]] = []

    def go(i: int, atoms: list[int], openings: list[int], log_p: float) -> None:
        if i == len(weight):
            tables = [tuple(j for j in range(i) if atoms[j] == k) for k in range(len(openings))]
            found.append((log_p + sum(map(log_marginal, tables)), len(tables)))
            return
        links = weight[i, :i]
        scale = np.log(alpha + links.sum())
        for j in range(i):
            if links[j] > 0.0:
                go(i + 1, [*atoms, atoms[j]], openings, log_p + np.log(links[j]) - scale)
        for k, size in enumerate([*openings, gamma]):
            more = [n + (m == k) for m, n in enumerate(openings)] + [1] * (k == len(openings))
            share = np.log(alpha * size / (gamma + sum(openings)))
            go(i + 1, [*atoms, k], more, log_p + share - scale)

    go(0, [], [], 0.0)
    log_joint, n_atoms = np.array(found).T
    log_evidence = logsumexp(log_joint)
    return float(log_evidence), np.bincount(n_atoms.astype(int), np.exp(log_joint - log_evidence))


def normal_wishart_log_marginal(x, mean, kappa, scatter, dof) -> float:
    """Log marginal likelihood of rows x (n, D) under a Normal-Wishart prior, scatter inverse scale.

    Lambda ~ W(scatter^-1, dof), mu | Lambda ~ N(mean, (kappa Lambda)^-1).
    """
    x = np.atleast_2d(np.asarray(x, dtype=float))
    n, d = x.shape
    centred = x - x.mean(axis=0)
    shift = (x.mean(axis=0) - mean)[:, None]
    posterior_scatter = scatter + centred.T @ centred + kappa * n / (kappa + n) * shift @ shift.T
    return float(
        -0.5 * n * d * np.log(np.pi)
        + multigammaln(0.5 * (dof + n), d)
        - multigammaln(0.5 * dof, d)
        + 0.5 * dof * np.linalg.slogdet(np.atleast_2d(scatter))[1]
        - 0.5 * (dof + n) * np.linalg.slogdet(posterior_scatter)[1]
        + 0.5 * d * np.log(kappa / (kappa + n))
    )
