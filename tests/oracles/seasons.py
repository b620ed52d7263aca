"""Slow twin of the seasons: the two filters in information form, collapsed by moments, in numpy."""

from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.stats import norm

FEW, FAR = 10, 9.0


class Fit(NamedTuple):
    """What is known after a row; the level is the first coefficient."""

    coefficient: np.ndarray  # (Q,)
    spread: np.ndarray  # (Q, Q), covariance over scale
    scale: float
    correlation: float
    condition: float
    jump: float  # probability


def basis(t, pairs):
    """Sines and cosines (N, 2 F) of frequencies, in the order (sin, cos, sin, cos ..)."""
    angle = 2 * np.pi * np.outer(t, pairs)
    return np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(len(t), -1)


def _harmonics(rows):
    found = []  # frequency and order
    for k, period in enumerate(rows):
        for j in range(1, (12 if k == 0 else 24) + 1):
            known = np.isclose(j / period, [f for f, _ in found], rtol=0, atol=1e-9).any()
            if j / period < 0.48 and not known:
                found.append((j / period, j))
    return found


def frequencies(rows):
    """Harmonics below .48 cycles a row: 12 of the shortest period, 24 of longer ones, each once."""
    return [frequency for frequency, _ in _harmonics(rows)]


def orders(rows):
    """How many times that of its period each of the frequencies is."""
    return np.array([order for _, order in _harmonics(rows)], dtype=float)


def _posterior(mean, cov, u, error):
    """Mean and covariance, over the scale, after an error seen along u with unit variance."""
    information = np.linalg.inv(cov)
    after = np.linalg.inv(information + np.outer(u, u))
    return mean + after @ u * error, after


def fits(y, z, setting, prior, chance):
    """Return the `Fit` after each value that is there; the first only starts the level.

    A jump is a further coefficient, which is 1 in the row alone; after it, it is a part of the
    level.
    """
    z = np.column_stack([np.ones(len(z)), z])
    Q = z.shape[1]
    mean = np.zeros(Q)
    cov, scale, rho, moments, residual = np.diag(prior), 0.0, 0.0, np.zeros(2), 0.0
    keep = np.array([1.0] + [np.sqrt(1.0 - setting.forget)] * (Q - 1))
    merge = np.hstack([np.eye(Q), np.eye(Q)[:, :1]])  # level and jump into one
    n, last, last_z, out = 0, np.nan, np.zeros(Q), []
    for value, here in zip(y, z, strict=True):
        if np.isnan(value):
            continue
        if n == 0:
            mean[0], last, last_z, n = value, value, here, 1
            continue
        u = here - rho * last_z
        error = value - rho * last - u @ mean
        cov = cov + np.diag([setting.wander] + [0.0] * (Q - 1))
        q, p = u @ cov @ u, 0.0
        stay = _posterior(mean, cov, u, error)
        new, after = stay
        if n > FEW and chance > 0.0:
            size = max(setting.jump, error**2 / scale)
            wide = np.zeros((Q + 1, Q + 1))
            wide[:Q, :Q], wide[Q, Q] = cov, size
            sds = np.sqrt(scale * np.array([1 + q, 1 + q + size]))
            logs = norm.logpdf(error, scale=sds)
            chances = chance, 1.0 - chance
            p = 1.0 / (1.0 + chances[1] / chances[0] * np.exp(logs[0] - logs[1]))
            far = _posterior(np.append(mean, 0.0), wide, np.append(u, 1.0), error)
            moved = merge @ far[0], merge @ far[1] @ merge.T
            new = (1 - p) * stay[0] + p * moved[0]
            after = np.zeros((Q, Q))
            for weight, (m, s) in zip((1 - p, p), (stay, moved), strict=True):
                after += weight * (s + np.outer(m - new, m - new) / scale)
        mean, cov = new, after / np.outer(keep, keep)
        square = error**2 / (1 + q)
        square = min(square, FAR * scale) if n > FEW else square
        scale += (1 - p) * max(setting.rate, 1 / n) * (square - scale)
        rest = value - here @ mean
        most = np.sqrt(FAR * moments[0])
        rest = np.clip(rest, -most, most) if n > FEW else rest
        seen = np.array([rest * rest, residual * rest])
        moments = moments + (1 - p) * max(setting.rate, 1 / n) * (seen - moments)
        residual, last, last_z = rest, value, here
        if n > FEW:
            rho = float(np.clip(moments[1] / moments[0], 0.0, setting.highest))
        n += 1
        out.append(Fit(mean, cov, scale, rho, np.linalg.cond(cov), p))
    return out


def shared(chance, odds):
    """Probability that each column jumps in a row, by all sets of columns that may.

    ``odds`` are those of each alone, without the prior. A jump is in one column or in any set.
    """
    n, found, total = len(odds), np.zeros(len(odds)), 1.0 - chance
    for jumps in product([False, True], repeat=n):
        here = np.array(jumps)
        if here.any():
            prior = 0.5 / (2**n - 1) + (0.5 / n if here.sum() == 1 else 0.0)
            density = chance * prior * np.prod(odds[here])
            total += density
            found[here] += density
    return found / total


def shrunk(fit):
    """Coefficients of the harmonics, each pair times the share of its power that is not noise."""
    pairs = fit.coefficient[1:].reshape(-1, 2)
    noise = fit.scale * np.diag(fit.spread)[1:].reshape(-1, 2).sum(axis=1)
    power = (pairs**2).sum(axis=1)
    share = np.maximum(0.0, 1.0 - noise / np.where(power > 0, power, np.inf))
    return (pairs * share[:, None]).ravel()


def lead(y, z, seasons, setting, jumped):
    """By how many nats "level + season" leads "level" after each of values that are all there.

    Returns this, and the values less the season on trial. ``seasons`` (N, Q) are the coefficients
    subtracted from each value, and ``jumped`` (N,) says where the level did: the speeds begin
    again. The weights of the speeds are summed again for each value.
    """
    gains, total, out = np.array([0.05, 0.2, 0.8]), 0.0, [0.0]
    level = {"raw": np.full(3, y[0]), "net": np.full(3, y[0])}
    spread = {"raw": np.zeros(3), "net": np.zeros(3)}
    scores = {"raw": [], "net": []}
    shown, age, trial = np.zeros(len(z[0])), 1, [y[0]]
    for i in range(1, len(y)):
        logs = {}
        trial.append(y[i] - z[i] @ shown)
        for name, value in (("raw", y[i]), ("net", trial[i])):
            error, variance = value - level[name], spread[name]
            squares, there = error**2, variance > 0
            at = np.zeros(3)
            at[there] = -0.5 * np.minimum(squares[there] / variance[there], FAR)
            at[there] -= 0.5 * np.log(variance[there])
            ages = setting.keep ** np.arange(len(scores[name]))[::-1]
            weight = np.array(scores[name]).reshape(-1, 3).T @ ages
            weight = np.exp(weight - weight.max())
            logs[name] = np.log(weight @ np.exp(at) / weight.sum())
            scores[name].append(at)
            squares = np.minimum(squares, FAR * variance) if i > FEW else squares
            if age:
                spread[name] = variance + max(setting.rate, 1 / i) * (squares - variance)
            level[name] += np.maximum(gains, 1 / (age + 1)) * error
        age = 0 if jumped[i] else age + 1
        if i >= setting.first:
            total += logs["net"] - logs["raw"]
            total = np.clip(total, -setting.most, setting.most)
        out.append(total)
        if i % setting.lag == 0 and i >= 2 * setting.lag:
            other = seasons[i - setting.lag]
            level["net"] += z[i] @ (shown - other)
            shown = other
    return np.array(out), np.array(trial)
