"""How far a Markov chain's frequencies may be from exact probabilities."""

import os
from collections.abc import Iterable

import numpy as np

from tests.oracles.enumeration import link_vectors, tables

COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"


def affordable(n_draws: int) -> int:
    """Return fewer draws where nothing is compiled; bounds below follow from their number."""
    return n_draws if COMPILED else n_draws // 50


def effective_size(trace: np.ndarray) -> float:
    """Effective sample size of a stationary trace (S,): Geyer's initial monotone sequence."""
    x = np.asarray(trace, dtype=float)
    n = len(x)
    x = x - x.mean()
    spectrum = np.fft.rfft(x, 2 * n)
    covariance = np.fft.irfft(spectrum * spectrum.conj())[:n] / n
    if covariance[0] <= 0.0:
        return float(n)
    rho = covariance / covariance[0]
    pairs = rho[: 2 * (n // 2)].reshape(-1, 2).sum(axis=1)
    last = np.flatnonzero(pairs <= 0.0)
    pairs = np.minimum.accumulate(pairs[: last[0] if len(last) else None])
    return float(min(n, n / (2.0 * pairs.sum() - 1.0)))


def least_effective_size(traces: Iterable[np.ndarray]) -> float:
    """Smallest effective size of several traces."""
    return min(effective_size(trace) for trace in traces)


def total_variation_bound(probs: np.ndarray, n_eff: float, failure: float = 1e-6) -> float:
    """Bound the total variation between exact probabilities and the frequencies of n_eff draws.

    E |p^ - p| <= sqrt(p (1 - p) / n) for each (Jensen), and one draw moves the distance by at most
    1 / n, so that it exceeds its expectation by t with probability exp(-2 n t^2) (McDiarmid).
    """
    expected = 0.5 * np.sqrt(probs * (1.0 - probs) / n_eff).sum()
    return float(expected + np.sqrt(np.log(1.0 / failure) / (2.0 * n_eff)))


def total_variation(counts: np.ndarray, probs: np.ndarray) -> float:
    """Total variation distance of frequencies and probabilities."""
    return float(0.5 * np.abs(counts / counts.sum() - probs).sum())


def exact_links(log_prior: np.ndarray, log_marginal) -> tuple[dict[tuple[int, ...], int], ...]:
    """Return the place of each link vector and its posterior probability."""
    vectors, log_joint = [], []
    for links, log_p in link_vectors(log_prior):
        labels = tables(links)
        members = [[i for i, k in enumerate(labels) if k == t] for t in sorted(set(labels))]
        vectors.append(links)
        log_joint.append(log_p + sum(log_marginal(m) for m in members))
    probs = np.exp(np.array(log_joint) - np.logaddexp.reduce(log_joint))
    return {v: k for k, v in enumerate(vectors)}, probs
