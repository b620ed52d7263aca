"""Sweeps of the blocked Gibbs sampler."""

import math

import numpy as np

from streamddcrp.compilation import kernel


@kernel
def _draw_chains(
    X, first, c, count, birth_mean, birth_var, drift, noise, rng, total, mean, var, phi
):
    """Draw the means of all slots at all epochs given who sits where.

    ``total`` (T, K, D) and ``mean``, ``var`` (T,) are work space; ``phi`` (T, K, D) is the outcome.
    """
    T, K, D = phi.shape
    total[:] = 0.0
    for t in range(T):
        for i in range(first[t], first[t + 1]):
            for d in range(D):
                total[t, c[i], d] += X[i, d]
    for k in range(K):
        for d in range(D):
            R = noise[d]
            for t in range(T):
                if t == 0:
                    m, P = birth_mean[d], birth_var[d]
                else:
                    m, P = mean[t - 1], var[t - 1] + drift[d]
                n = count[t, k]
                if n > 0.0:
                    gain = P / (P + R / n)
                    m += gain * (total[t, k, d] / n - m)
                    P = gain * R / n
                mean[t], var[t] = m, P
            later = rng.normal(mean[T - 1], math.sqrt(var[T - 1]))
            phi[T - 1, k, d] = later
            for t in range(T - 2, -1, -1):
                J = var[t] / (var[t] + drift[d])
                later = rng.normal(
                    mean[t] + J * (later - mean[t]), math.sqrt(max(0.0, (1.0 - J) * var[t]))
                )
                phi[t, k, d] = later


@kernel
def _log_seat(t, k, count, past, kappa, a0):
    """Log prior weight of one more row of epoch t at slot k, given all others."""
    out = math.log(a0 + past[t, k] + count[t, k])
    for d in range(min(len(kappa), len(count) - 1 - t)):
        m = count[t + 1 + d, k]
        if m > 0.0:
            y = a0 + max(0.0, past[t + 1 + d, k])
            out += math.lgamma(y + kappa[d] + m) - math.lgamma(y + kappa[d])
            out -= math.lgamma(y + m) - math.lgamma(y)
    return out


@kernel
def _add(t, k, sign, count, past, kappa):
    """Seat a row of epoch t at slot k or, ``sign`` -1, take it away."""
    count[t, k] += sign
    for d in range(min(len(kappa), len(count) - 1 - t)):
        past[t + 1 + d, k] += sign * kappa[d]


@kernel
def _recount(first, c, kappa, count, past):
    """Count rows (T, K), and their decayed past (T, K)."""
    count[:] = 0.0
    past[:] = 0.0
    for t in range(len(count)):
        for i in range(first[t], first[t + 1]):
            count[t, c[i]] += 1.0
        for d in range(min(len(kappa), t)):
            for k in range(count.shape[1]):
                past[t, k] += kappa[d] * count[t - 1 - d, k]


@kernel
def _draw_seats(X, first, c, count, past, kappa, a0, phi, noise, rng, prior, weight):
    """Draw the slot of every row in turn; ``prior`` and ``weight`` (K,) are work space."""
    K, D = phi.shape[1:]
    for t in range(len(count)):
        for k in range(K):
            prior[k] = _log_seat(t, k, count, past, kappa, a0)
        for i in range(first[t], first[t + 1]):
            old = c[i]
            _add(t, old, -1.0, count, past, kappa)
            with_row = prior[old]
            prior[old] = _log_seat(t, old, count, past, kappa, a0)
            top = -np.inf
            for k in range(K):
                s = prior[k]
                for d in range(D):
                    gap = X[i, d] - phi[t, k, d]
                    s -= 0.5 * gap * gap / noise[d]
                weight[k] = s
                top = max(top, s)
            total = 0.0
            for k in range(K):
                total += math.exp(weight[k] - top)
                weight[k] = total
            u = rng.random() * total
            new = 0
            while new < K - 1 and weight[new] <= u:
                new += 1
            c[i] = new
            _add(t, new, 1.0, count, past, kappa)
            if new == old:
                prior[old] = with_row
            else:
                prior[new] = _log_seat(t, new, count, past, kappa, a0)


@kernel
def log_joint(X, first, c, count, past, alpha, phi, noise):
    """Log p(c) + log p(x | c, phi)."""
    T, K, D = phi.shape
    a0, out = alpha / K, 0.0
    for t in range(T):
        total = alpha + past[t].sum()
        out += math.lgamma(total) - math.lgamma(total + first[t + 1] - first[t])
        for k in range(K):
            if count[t, k] > 0.0:
                y = a0 + past[t, k]
                out += math.lgamma(y + count[t, k]) - math.lgamma(y)
        for i in range(first[t], first[t + 1]):
            for d in range(D):
                gap = X[i, d] - phi[t, c[i], d]
                out -= 0.5 * (gap * gap / noise[d] + math.log(2.0 * math.pi * noise[d]))
    return out


@kernel
def sweep(
    n, X, first, c, alpha, kappa, birth_mean, birth_var, drift, noise, rng, count, past, phi
):  # fmt: skip
    """Make ``n`` sweeps; return the log joint density after the last one.

    Parameters
    ----------
    X : ndarray, shape (N, D)
        Rows of all epochs, one epoch after the other.
    first : ndarray of int64, shape (T + 1,)
        First row of every epoch, and N.
    c : ndarray of int64, shape (N,)
        Slots of the rows (updated).
    alpha : float
    kappa : ndarray, shape (F,)
        Weights of the epochs before.
    birth_mean, birth_var, drift, noise : ndarray, shape (D,)
        m0, P0, Q, R.
    rng : numpy.random.Generator
    count, past : ndarray, shape (T, K)
        Rows of every slot and their decayed past (updated).
    phi : ndarray, shape (T, K, D)
        Means of the slots (updated).
    """
    T, K, D = phi.shape
    total = np.empty((T, K, D))
    mean, var = np.empty(T), np.empty(T)
    prior, weight = np.empty(K), np.empty(K)
    for _ in range(n):
        _recount(first, c, kappa, count, past)  # sheds what rounding has left in the past
        _draw_chains(
            X, first, c, count, birth_mean, birth_var, drift, noise, rng, total, mean, var, phi
        )
        _draw_seats(
            X, first, c, count, past, kappa, alpha / K, phi, noise, rng, prior, weight
        )  # fmt: skip
    return log_joint(X, first, c, count, past, alpha, phi, noise)
