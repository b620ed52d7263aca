"""Slow twins of the laws of columns: batch algebra instead of recursions."""

import math
from itertools import groupby

import numpy as np
from scipy.special import logsumexp
from scipy.stats import norm, t

OUTLIERS, FAR, KEEP = 0.01, 100.0, 0.999


def covariance(law, jump, n, jumped=()):
    """Covariance (n, n) of values without noise's scale: level, drift or trend, and noise.

    ``jumped`` are rows in which the level, or the slope of a trend, has jumped.
    """
    at = np.arange(n)
    steps = np.zeros((n, 0))
    if law.trend:  # the level moves by the slopes so far; the first row has had one step
        slope = np.array(
            [[law.phi ** (i - k) if i >= k else 0.0 for k in range(n)] for i in range(n)]
        )
        first = law.phi ** (at + 1.0)
        shocks = np.column_stack(
            [first * math.sqrt(law.q / (1 - law.phi**2)), slope * math.sqrt(law.q)]
        )
        leaps = [np.where(at >= k, law.phi ** np.maximum(at - k, 0.0), 0.0) for k in jumped]
        shocks = np.column_stack([shocks, *[math.sqrt(jump) * leap for leap in leaps]])
        steps = np.cumsum(shocks, axis=0)
    elif law.phi == 1.0:
        steps = np.tril(np.full((n, n), math.sqrt(law.q)))
    elif law.q > 0.0:
        gap = np.abs(at[:, None] - at)
        steps = np.linalg.cholesky(law.q / (1 - law.phi**2) * law.phi**gap + 1e-14 * np.eye(n))
    found = np.eye(n) + steps @ steps.T + jump
    if not law.trend:
        for k in jumped:
            late = (at >= k).astype(float)
            found += jump * np.outer(late, late)
    return found


def one_step(y, mean, cov):
    """Predicted value and variance of each value given those before, by solving afresh."""
    found = []
    for i in range(len(y)):
        if i == 0:
            found.append((mean, cov[0, 0]))
            continue
        weights = np.linalg.solve(cov[:i, :i], cov[:i, i])
        found.append((mean + weights @ (y[:i] - mean), cov[i, i] - weights @ cov[:i, i]))
    return found


def scores(y, foreseen, noise):
    """Log densities of values, each a Student with what is known of the noise, or an outlier.

    Right as long as no value is more likely an outlier than not.
    """
    a, b, found = 2.0, 2.0 * noise, []
    for value, (mean, spread) in zip(y, foreseen, strict=True):
        sd = math.sqrt(spread * b / a)
        inside = math.log1p(-OUTLIERS) + t.logpdf(value, 2.0 * a, mean, sd)
        outside = math.log(OUTLIERS) + norm.logpdf(value, mean, sd * math.sqrt(FAR))
        found.append(logsumexp([inside, outside]))
        share = math.exp(inside - found[-1])
        assert share > 0.5
        a = KEEP * a + 0.5 * share
        b = KEEP * b + 0.5 * share * (value - mean) ** 2 / spread
    return np.array(found)


def held_evidence(y, near=8, levels=12):
    """Log odds that values (N,) are held, run by run."""
    runs = [(value, len([*same])) for value, same in groupby(y[~np.isnan(y)].tolist())]
    if len({value for value, _ in runs}) <= levels:
        return -np.inf
    total = 0.0
    for i, (value, length) in enumerate(runs):
        others = [runs[j][0] for j in range(len(runs)) if 2 <= abs(i - j) <= near + 1]
        chance = max(sum(other == value for other in others) / len(others), 1 / (2 * near))
        total += math.log((0.5 + 0.5 * chance) / chance) if length > 1 else math.log(0.5)
    return total
