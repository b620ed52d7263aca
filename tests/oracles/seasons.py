"""Slow twin of the seasons: weighted least squares solved anew for every row, in plain numpy."""

from typing import NamedTuple

import numpy as np

FEW, FAR = 10, 9.0


class Fit(NamedTuple):
    """What is known after a row: coefficients (P,), covariance over scale (P, P), scale."""

    coefficient: np.ndarray
    spread: np.ndarray
    scale: float
    condition: float


def basis(t, pairs):
    """Sines and cosines (N, 2 F) of frequencies, in the order (sin, cos, sin, cos ..)."""
    angle = 2 * np.pi * np.outer(t, pairs)
    return np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(len(t), -1)


def frequencies(rows):
    """Harmonics below .48 cycles a row: 12 of the shortest period, 24 of longer ones, each once."""
    found = []
    for k, period in enumerate(rows):
        for j in range(1, (12 if k == 0 else 24) + 1):
            if j / period < 0.48 and not np.isclose(j / period, found, rtol=0, atol=1e-9).any():
                found.append(j / period)
    return found


def fits(y, z, setting):
    """Return the `Fit` after each value that is there; the first only starts the filter.

    With m and v the slow means of y and z before a row, (y - m, z - v) is a row of a regression
    without intercept; all rows so far are weighted and discounted, and the normal equations solved.
    """
    P, keep = z.shape[1], 1.0 - setting.forget
    rows, targets, weights = [], [], []
    slow, slow_z, scale, out = None, None, 0.0, []
    coefficient, spread = np.zeros(P), setting.prior * np.eye(P)
    for value, here in zip(y, z, strict=True):
        if np.isnan(value):
            continue
        if slow is None:
            slow, slow_z = value, here.copy()
            continue
        n = len(rows) + 1
        u, target = here - slow_z, value - slow
        error, q = target - u @ coefficient, u @ spread @ u
        limit = setting.huber * np.sqrt(scale * (1 + q))
        weights.append(limit / abs(error) if n > FEW and abs(error) > limit else 1.0)
        rows.append(u)
        targets.append(target)
        A, b = np.array(rows), np.array(targets)
        w = np.array(weights) * keep ** np.arange(n - 1, -1, -1.0)
        information = (A.T * w) @ A + keep**n / setting.prior * np.eye(P)
        coefficient = np.linalg.solve(information, (A.T * w) @ b)
        spread = np.linalg.inv(information)
        square = error**2 / (1 + q)
        square = min(square, FAR * scale) if n > FEW else square
        scale += max(setting.rate, 1 / n) * (square - scale)
        pace = max(setting.filter, 1 / (n + 1))
        slow, slow_z = slow + pace * (value - slow), slow_z + pace * u
        out.append(Fit(coefficient, spread, scale, np.linalg.cond(information)))
    return out


def shrunk(fit):
    """Coefficients, each pair times the share of its power that is not noise."""
    pairs = fit.coefficient.reshape(-1, 2)
    noise = fit.scale * np.diag(fit.spread).reshape(-1, 2).sum(axis=1)
    power = (pairs**2).sum(axis=1)
    share = np.maximum(0.0, 1.0 - noise / np.where(power > 0, power, np.inf))
    return (pairs * share[:, None]).ravel()
