"""The temporal Dirichlet-process mixture the slow, obvious way: plain Python over lists of floats.

``c`` and ``q`` are lists over epochs: labels (N_t,) or probabilities (N_t, K). ``kappa`` holds
the weights of the 1, 2, .. epochs before. A count is a list of (probability, weight) pairs, one for
each item that may add to it.
"""

import math
from collections.abc import Callable, Iterator
from itertools import pairwise, product
from typing import Any

import numpy as np
from scipy.special import digamma, gammaln, logsumexp, polygamma

Law = list[tuple[float, float]]  # value, probability
Items = list[tuple[float, float]]  # probability, weight
Function = Callable[[float], float]
SURE, TINY, SILENT = 1e-10, 1e-12, 1e-9


def kernel(decay: float, width: int) -> list[float]:
    """Weights exp(-d / decay) of the ``width`` epochs before."""
    return [math.exp(-d / decay) for d in range(1, width + 1)]


# -- the prior of assignments ---------------------------------------------------------------------


def decayed(counts: list[Any], t: int, kappa: list[float]) -> Any:
    """m'_t: decayed sum of the counts before epoch t."""
    return sum((kappa[d - 1] * counts[t - d] for d in range(1, min(len(kappa), t) + 1)), 0.0)


def log_joint(c: Any, K: int, alpha: float, kappa: list[float]) -> float:
    """log p(c) of the finite model, equation (J)."""
    counts = [np.bincount(np.array(labels, int), minlength=K) for labels in c]
    a0, out = alpha / K, 0.0
    for t, m in enumerate(counts):
        past = decayed(counts, t, kappa) + np.zeros(K)
        total = alpha + past.sum()
        out += gammaln(total) - gammaln(total + m.sum())
        out += (gammaln(a0 + past + m) - gammaln(a0 + past)).sum()
    return float(out)


def log_joint_infinite(c: Any, alpha: float, kappa: list[float]) -> float:
    """log probability of the partition into chains, equation (J_inf); silence ends a chain."""
    K = 1 + max((k for labels in c for k in labels), default=0)
    counts = [np.bincount(np.array(labels, int), minlength=K) for labels in c]
    out = 0.0
    for t, m in enumerate(counts):
        past = decayed(counts, t, kappa) + np.zeros(K)
        out += gammaln(alpha + past.sum()) - gammaln(alpha + past.sum() + m.sum())
        for k in range(K):
            if past[k] > 0.0:
                out += gammaln(past[k] + m[k]) - gammaln(past[k])
            elif m[k] > 0:
                out += math.log(alpha) + gammaln(m[k])
    return float(out)


def assignments(sizes: list[int], K: int) -> Iterator[list[tuple[int, ...]]]:
    """Every assignment of the items of epochs of these sizes to K labels."""
    ends = np.cumsum([0, *sizes])
    for flat in product(range(K), repeat=int(ends[-1])):
        yield [flat[a:b] for a, b in pairwise(ends)]


def log_evidence(
    sizes: list[int], K: int, alpha: float, kappa: list[float], log_lik: Callable[[Any], float]
) -> float:
    """log sum over assignments of p(c) exp(log_lik(c))."""
    return float(
        logsumexp([log_joint(c, K, alpha, kappa) + log_lik(c) for c in assignments(sizes, K)])
    )


# -- counts under independent soft assignments ----------------------------------------------------


def items(
    q: Any, t: int, k: int, kappa: list[float], *, now: bool, without: tuple[int, int] | None = None
) -> Items:
    """What adds to m'_kt, and, ``now``, to m_kt; an item (epoch, row) may be left out."""
    epochs = [(t - d, kappa[d - 1]) for d in range(1, min(len(kappa), t) + 1)]
    epochs += [(t, 1.0)] if now else []
    return [
        (float(row[k]), weight)
        for s, weight in epochs
        for i, row in enumerate(q[s])
        if (s, i) != without
    ]


def law(of: Items) -> Law:
    """Law of a weighted sum of Bernoullis: a Poisson binomial for each weight, convolved."""
    out: Law = [(0.0, 1.0)]
    for weight in sorted({w for _, w in of}):
        binomial = np.ones(1)
        for p in (p for p, w in of if w == weight):
            binomial = np.convolve(binomial, [1.0 - p, p])
        out = [(x + n * weight, p * r) for x, p in out for n, r in enumerate(binomial)]
    return out


def moments(of: Items) -> tuple[float, float, float]:
    """Mean, variance and log probability of zero."""
    mean = sum(p * w for p, w in of)
    var = sum(p * (1.0 - p) * w * w for p, w in of)
    return mean, var, sum(math.log1p(-min(p, 1.0 - SURE)) for p, _ in of)


def expect(
    f: Callable[[float], float], curve: Callable[[float], float], of: Items, order: str
) -> float:
    """E f(X) for X the weighted sum of ``of``; ``curve`` is the second derivative of f."""
    if order == "exact":
        return sum(p * f(x) for x, p in law(of))
    mean, var, _ = moments(of)
    if order == "cvb0":
        return f(mean)
    if order == "taylor2":
        return f(mean) + 0.5 * curve(mean) * var
    if not of:
        return f(0.0)
    newest = max(w for _, w in of)  # of the items that are there, one of this weight, or none
    older = [item for item in of if item[1] < newest]
    mean, var, log_zero = moments([item for item in of if item[1] == newest])
    some = -math.expm1(log_zero)
    without = expect(f, curve, older, order)
    if some < TINY or mean < TINY * newest:
        return without
    y = mean / some
    v = max(0.0, (var + mean * mean) / some - y * y)
    beside, spread, _ = moments(older)
    given = f(y + beside) + 0.5 * curve(y + beside) * (v + spread)
    return (1.0 - some) * without + some * given


def expected_log(a0: float, of: Items, order: str) -> float:
    """E log(a0 + X)."""
    return expect(lambda x: math.log(a0 + x), lambda x: -1.0 / (a0 + x) ** 2, of, order)


def expected_step(a0: float, step: float, of: Items, order: str) -> float:
    """E h(X), h(x) = log Gamma(a0 + x + step) - log Gamma(a0 + x)."""
    return expect(
        lambda x: _step(a0 + x, step),
        lambda x: float(polygamma(1, a0 + x + step) - polygamma(1, a0 + x)),
        of,
        order,
    )


def _step(y: float, step: float) -> float:
    if y > 1e5:
        return float(step * digamma(y) + 0.5 * step**2 * polygamma(1, y))
    return math.lgamma(y + step) - math.lgamma(y)


def expected_lgamma(a0: float, of: Items, order: str) -> float:
    """E log Gamma(a0 + X)."""
    return expect(lambda x: math.lgamma(a0 + x), lambda x: float(polygamma(1, a0 + x)), of, order)


# -- update and objective -------------------------------------------------------------------------


def prior_scores(
    q: Any, t: int, i: int, alpha: float, kappa: list[float], order: str
) -> list[float]:
    """Past, present and look-ahead terms of equation (U) for item i of epoch t."""
    K = len(q[t][i])
    a0, out = alpha / K, []
    for k in range(K):
        s = expected_log(a0, items(q, t, k, kappa, now=True, without=(t, i)), order)
        for d in range(1, min(len(kappa), len(q) - 1 - t) + 1):
            if sum(row[k] for row in q[t + d]) <= SILENT:
                continue
            past = items(q, t + d, k, kappa, now=False, without=(t, i))
            present = [(float(row[k]), 1.0) for row in q[t + d]]
            s += expected_step(a0, kappa[d - 1], past + present, order)
            s -= expected_step(a0, kappa[d - 1], past, order)
        out.append(s)
    return out


def sweep_epoch(q: Any, ell: Any, t: int, alpha: float, kappa: list[float], order: str) -> None:
    """Update the rows of an epoch one by one; ``q`` is a list of arrays and changes."""
    for i in range(len(q[t])):
        s = np.array(prior_scores(q, t, i, alpha, kappa, order)) + ell[t][i]
        q[t][i] = np.exp(s - logsumexp(s))


def sweep(q: Any, ell: Any, alpha: float, kappa: list[float], order: str) -> None:
    """Update every epoch in turn."""
    for t in range(len(q)):
        sweep_epoch(q, ell, t, alpha, kappa, order)


def expected_log_joint(q: Any, alpha: float, kappa: list[float], order: str) -> float:
    """E log p(c), part (a) of the objective."""
    K = q[0].shape[1]
    a0, out = alpha / K, 0.0
    sizes = [len(rows) for rows in q]
    for t, n in enumerate(sizes):
        total = alpha + decayed(sizes, t, kappa)
        out += math.lgamma(total) - math.lgamma(total + n)
        for k in range(K):
            out += expected_lgamma(a0, items(q, t, k, kappa, now=True), order)
            out -= expected_lgamma(a0, items(q, t, k, kappa, now=False), order)
    return out


def entropy(q: Any) -> float:
    """-sum q log q."""
    return -sum(float(p) * math.log(p) for rows in q for row in rows for p in row if p > 0.0)


def elbo(q: Any, ell: Any, alpha: float, kappa: list[float], order: str = "exact") -> float:
    """Objective under known likelihoods ``ell``."""
    fit = sum(float((a * b).sum()) for a, b in zip(q, ell, strict=True))
    return expected_log_joint(q, alpha, kappa, order) + fit + entropy(q)


# -- Gaussian chains ------------------------------------------------------------------------------


def dense_chain(
    X: list[np.ndarray], q: list[np.ndarray], R: float, Q: float, m0: float, P0: float
) -> tuple[np.ndarray, np.ndarray, float]:
    """Mean (T,) and covariance (T, T) of a chain seen through weighted rows, and log Z.

    One column of data; rows (N_t,) with weights (N_t,). Z integrates the product of the densities
    to the power of their weights.
    """
    T = len(X)
    cov = np.array([[P0 + Q * min(s, t) for s in range(T)] for t in range(T)])
    precision = np.linalg.inv(cov)
    weight = np.array([w.sum() for w in q])
    h = (
        precision @ np.full(T, m0)
        + np.array([(w * x).sum() for w, x in zip(q, X, strict=True)]) / R
    )
    post = np.linalg.inv(precision + np.diag(weight) / R)
    mean = post @ h
    square = sum(float((w * x * x).sum()) for w, x in zip(q, X, strict=True)) / R
    log_z = 0.5 * (
        np.linalg.slogdet(post)[1] - np.linalg.slogdet(cov)[1] + h @ mean
        - m0 * m0 * precision.sum() - square - weight.sum() * math.log(2.0 * math.pi * R)
    )  # fmt: skip
    return mean, post, float(log_z)


def dense_full_chain(
    X: list[np.ndarray], q: list[np.ndarray], R: Any, Q: Any, m0: Any, P0: Any
) -> tuple[np.ndarray, np.ndarray, float]:
    """Mean (T, D) and covariance (T, D, T, D) of a chain with full covariances, and log Z.

    As `dense_chain`, for rows (N_t, D) of which NaN is missing: densities of what is there.
    """
    T, D = len(X), len(m0)
    cov = np.concatenate(
        [np.concatenate([P0 + Q * min(s, t) for s in range(T)], axis=1) for t in range(T)]
    )
    prior, post = np.tile(m0, T), np.linalg.inv(cov)
    h = post @ prior
    log_z = -0.5 * (prior @ h + np.linalg.slogdet(cov)[1])
    for t in range(T):
        for x, w in zip(X[t], q[t], strict=True):
            there = np.flatnonzero(~np.isnan(x))
            P, at = np.linalg.inv(R[np.ix_(there, there)]), t * D + there
            post[np.ix_(at, at)] += w * P
            h[at] += w * (P @ x[there])
            norm = len(there) * math.log(2.0 * math.pi) - np.linalg.slogdet(P)[1]
            log_z -= 0.5 * w * (norm + x[there] @ P @ x[there])
    post = np.linalg.inv(post)
    log_z += 0.5 * (h @ post @ h + np.linalg.slogdet(post)[1])
    return (post @ h).reshape(T, D), post.reshape(T, D, T, D), float(log_z)


def exact_bound(resp: Any, evidence: float, settings: Any) -> float:
    """Lower bound on log p(x) under any assignments (N_t, K) of all epochs (section 6).

    ``evidence`` is the sum of the components' log evidences under them, or of the expected log
    likelihoods where these are known. O(K T N²) for N rows in ``width`` epochs.
    """
    entropy = -sum(float((q[q > 0.0] * np.log(q[q > 0.0])).sum()) for q in resp)
    return count_bound(resp, settings) + evidence + entropy


def count_bound(resp: Any, settings: Any) -> float:
    """Lower bound on E log p(c).

    For a fixed m, g(x, m) is concave in x, and each Bernoulli of weight kappa_d in the decayed past
    is dominated in convex order by one of the largest weight with the same mean. So the past may be
    replaced by that weight times a Poisson binomial. Exact where all weights are equal, as with a
    width of one epoch.
    """
    kappa = settings.past_weights
    largest = max(kappa)
    sizes = np.array([len(q) for q in resp])
    total = np.full(len(resp), settings.alpha)
    out = 0.0
    for t, now in enumerate(resp):
        window = [(weight, t - d) for d, weight in enumerate(kappa, start=1) if t >= d]
        total[t] += sum(weight * sizes[s] for weight, s in window)
        for k in np.flatnonzero(now.sum(axis=0) > 0.0):
            before = [resp[s][:, k] * (weight / largest) for weight, s in window]
            past, count = _successes(np.concatenate([np.zeros(0), *before])), _successes(now[:, k])
            x = settings.a0 + largest * np.arange(len(past))[:, None]
            out += float(past @ (gammaln(x + np.arange(len(count))) - gammaln(x)) @ count)
    return out + float((gammaln(total) - gammaln(total + sizes)).sum())


def _successes(probs: Any) -> Any:
    """Probabilities of each number of successes of independent trials."""
    found = np.ones(1)
    for p in probs[probs > 0.0]:
        found = np.convolve(found, [1.0 - p, p])
    return found


# -- the infinite model ---------------------------------------------------------------------------


def chains(sizes: list[int], width: int) -> Iterator[list[tuple[int, ...]]]:
    """Every partition of the items of epochs of these sizes into chains, labels by first item.

    No chain is silent for ``width`` epochs or more.
    """
    epoch = np.repeat(np.arange(len(sizes)), sizes).tolist()
    ends = np.cumsum([0, *sizes])

    def grow(flat: list[int]) -> Iterator[list[int]]:
        if len(flat) == len(epoch):
            yield flat
            return
        now = epoch[len(flat)]
        for k in range(max(flat, default=-1) + 2):
            held = [epoch[i] for i, label in enumerate(flat) if label == k]
            if not held or now - held[-1] <= width:
                yield from grow([*flat, k])

    for flat in grow([]):
        yield [tuple(flat[a:b]) for a, b in pairwise(ends)]


def fading_poisson(rows: list[Any], a: float, b: float, rho: float) -> float:
    """Log evidence of counts (N_t,) of a chain's epochs whose rate has a Gamma(a, b) prior."""
    total, n, out = 0.0, 0.0, 0.0
    for row in rows:
        total, n = rho * total, rho * n
        for x in row:
            shape, rate = a + total, b + n
            out += shape * math.log(rate / (rate + 1.0)) - x * math.log(rate + 1.0)
            out += gammaln(shape + x) - gammaln(shape) - gammaln(x + 1.0)
            total, n = total + x, n + 1.0
    return float(out)


def fading_words(rows: list[Any], prior: Any, rho: float) -> float:
    """Log evidence of words (N_t, V) of a chain's epochs, word by word; no coefficients."""
    weight, out = np.zeros(len(prior)), 0.0
    for row in rows:
        weight = rho * weight
        for x in row:
            for w in np.repeat(np.arange(len(prior)), x):
                out += math.log((prior[w] + weight[w]) / (prior.sum() + weight.sum()))
                weight[w] += 1.0
    return out
