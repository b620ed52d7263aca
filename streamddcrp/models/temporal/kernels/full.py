"""Gaussian chains with full covariances: docs/math/temporal.md (10) and (11).

A row x contributes P_x to the precision of its component's mean and P_x x to precision times mean,
with P_x the precision of the present values and zeros for missing ones. Rows with missing values
therefore need no special treatment. A conditional covariance is computed as M M' for some M, which
rounding leaves symmetric and nonnegative.
"""

import math

import numpy as np

from streamddcrp.compilation import inner, kernel
from streamddcrp.models.temporal.kernels.counts import seat_row

_LEAST = math.exp(-40.0)  # a share of a row that rounding would lose
_LOG_2PI = math.log(2.0 * math.pi)


@inner
def _root(A, out):
    """Lower Cholesky factor of A (D, D); zeros for a pivot that is not positive."""
    D = A.shape[0]
    for j in range(D):
        for i in range(D):
            out[i, j] = 0.0
            if i >= j:
                left = A[i, j]
                for c in range(j):
                    left -= out[i, c] * out[j, c]
                if i == j:
                    out[j, j] = math.sqrt(left) if left > 0.0 else 0.0
                elif out[j, j] > 0.0:
                    out[i, j] = left / out[j, j]


@inner
def _solve(root, b, out):
    """Solve L y = b (D,) for lower triangular L; zero where its diagonal is."""
    for i in range(len(b)):
        left = b[i]
        for c in range(i):
            left -= root[i, c] * out[c]
        out[i] = left / root[i, i] if root[i, i] > 0.0 else 0.0


@kernel
def noise_parts(noise, whitener, precision):
    """Fill the inverse W of the Cholesky factor of R, and W' W; return D log 2 pi + log |R|."""
    D = noise.shape[0]
    root, unit, column = np.empty((D, D)), np.zeros(D), np.empty(D)
    _root(noise, root)
    norm = 0.0
    for j in range(D):
        norm += _LOG_2PI + 2.0 * math.log(max(root[j, j], 1e-300))
        unit[:] = 0.0
        unit[j] = 1.0
        _solve(root, unit, column)
        whitener[:, j] = column
    for i in range(D):
        for j in range(D):
            precision[i, j] = 0.0
            for c in range(max(i, j), D):
                precision[i, j] += whitener[c, i] * whitener[c, j]
    return norm


@inner
def _present(x, precision, norm, out):
    """Fill the precision of the present values of x (D,); return their log |2 pi R|."""
    out[:] = precision
    D = len(x)
    for c in range(D):
        if not math.isnan(x[c]):
            continue
        pivot = max(out[c, c], 1e-300)
        norm += math.log(pivot) - _LOG_2PI
        for i in range(D):
            for j in range(D):
                if c not in (i, j):
                    out[i, j] -= out[i, c] * out[c, j] / pivot
        out[c, :] = 0.0
        out[:, c] = 0.0
    return norm


@inner
def _form(A, x, y):
    out = 0.0
    for i in range(len(x)):
        for j in range(len(y)):
            if not math.isnan(x[i]) and not math.isnan(y[j]):
                out += x[i] * A[i, j] * y[j]
    return out


@inner
def _trace(A, B):
    out = 0.0
    for i in range(len(A)):
        for j in range(len(A)):
            out += A[i, j] * B[i, j]
    return out


@inner
def _add_row(w, x, precision, info, shift):
    for i in range(len(x)):
        for j in range(len(x)):
            info[i, j] += w * precision[i, j]
            if not math.isnan(x[j]):
                shift[i] += w * precision[i, j] * x[j]


@kernel
def full_stats(X, parts, q, out):
    """Sum rows (N, D) about the mean at birth under assignments (N, K).

    ``parts``: of `noise_parts`. ``out``: ``size`` (K,) expected rows; ``info`` (K, D, D), ``shift``
    (K, D), ``const`` (K,): sums of P_x, P_x x and log |2 pi R_x| + x' P_x x; and of the rows that
    have no value missing ``n_whole`` (K,), ``total`` (K, D), ``square`` (K, D, D): their number,
    sums and products.
    """
    D = X.shape[1]
    _, precision, norm = parts
    size, info, shift, const = out.size, out.info, out.shift, out.const
    n_whole, total, square = out.n_whole, out.total, out.square
    info[:], square[:], shift[:], total[:] = 0.0, 0.0, 0.0, 0.0
    size[:], const[:], n_whole[:] = 0.0, 0.0, 0.0
    gap, own = np.empty(D), np.empty((D, D))
    for i in range(X.shape[0]):
        for c in range(D):
            gap[c] = X[i, c]
        whole = not math.isnan(gap.sum())
        if not whole:
            own_norm = _present(gap, precision, norm, own)
            own_norm += _form(own, gap, gap)
        for k in range(q.shape[1]):
            w = q[i, k]
            if w == 0.0:
                continue
            size[k] += w
            if not whole:
                _add_row(w, gap, own, info[k], shift[k])
                const[k] += w * own_norm
                continue
            n_whole[k] += w
            for a in range(D):
                total[k, a] += w * gap[a]
                for b in range(D):
                    square[k, a, b] += w * (gap[a] * gap[b])
    for k in range(q.shape[1]):
        const[k] += n_whole[k] * norm
        for a in range(D):
            for b in range(D):
                info[k, a, b] += n_whole[k] * precision[a, b]
                shift[k, a] += precision[a, b] * total[k, b]
                const[k] += precision[a, b] * square[k, a, b]


@inner
def _update(mean, cov, info, shift, const, work, gap):
    """Learn rows of information ``info, shift, const``; return their log evidence.

    ``mean`` (D,), ``cov`` (D, D) of the component's mean (updated); ``work`` (3, D, D), ``gap`` (2,
    D). With P = L L' and I + L' info L = C C', the covariance is then M M' for M C' = L.
    """
    D = len(mean)
    L, B, C = work
    _root(cov, L)
    for a in range(D):
        for j in range(D):
            C[a, j] = 0.0
            for b in range(j, D):
                C[a, j] += info[a, b] * L[b, j]
    for i in range(D):
        for j in range(i + 1):
            B[i, j] = 1.0 if i == j else 0.0
            for a in range(i, D):
                B[i, j] += L[a, i] * C[a, j]
    _root(B, C)
    log_z = -0.5 * const
    for i in range(D):
        log_z -= math.log(max(C[i, i], 1e-300))
        gap[0, i] = shift[i]
        for j in range(D):
            gap[0, i] -= info[i, j] * mean[j]
        log_z += 0.5 * mean[i] * (shift[i] + gap[0, i])
    for i in range(D):
        _solve(C, L[i], B[i])  # rows of M
    for j in range(D):
        gap[1, j] = 0.0
        for i in range(D):
            gap[1, j] += B[i, j] * gap[0, i]
        log_z += 0.5 * gap[1, j] * gap[1, j]
    for i in range(D):
        for j in range(D):
            mean[i] += B[i, j] * gap[1, j]
            cov[i, j] = 0.0
            for c in range(D):
                cov[i, j] += B[i, c] * B[j, c]
    return log_z


@kernel
def kalman_full(stats, begins, starts, birth_var, drift, out):
    """Filter and smooth every component over the epochs of a window, as `kalman` does."""
    size, info, shift, const = stats.size, stats.info, stats.shift, stats.const
    filtered_mean, filtered_var, mean, var = out.filtered_mean, out.filtered_var, out.mean, out.var
    lagged, log_z = out.lagged, out.log_z
    E, K, D = shift.shape
    work, gap = np.empty((3, D, D)), np.empty((2, D))
    J, ahead = np.empty((D, D)), np.empty((D, D))
    for k in range(K):
        first = max(begins[k], 0)
        for e in range(E):
            m, P = filtered_mean[e, k], filtered_var[e, k]
            log_z[e, k] = 0.0
            if e < first or (e == first and begins[k] >= 0):
                m[:] = 0.0
                P[:] = birth_var
            else:
                m[:] = starts.mean[k] if e == 0 else filtered_mean[e - 1, k]
                P[:] = starts.var[k] if e == 0 else filtered_var[e - 1, k]
                P += drift
            if e >= first and size[e, k] > 0.0:
                log_z[e, k] = _update(m, P, info[e, k], shift[e, k], const[e, k], work, gap)
        for e in range(E - 1, -1, -1):
            m, P = mean[e, k], var[e, k]
            m[:] = filtered_mean[e, k]
            P[:] = filtered_var[e, k]
            lagged[e, k] = 0.0
            if e == E - 1 or e < first:
                continue
            ahead[:] = P
            ahead += drift
            _root(ahead, work[0])
            for i in range(D):  # J = P (P + Q)^-1
                _solve(work[0], P[i], gap[0])
                for c in range(D - 1, -1, -1):
                    left = gap[0, c]
                    for d in range(c + 1, D):
                        left -= work[0, d, c] * J[i, d]
                    J[i, c] = left / work[0, c, c] if work[0, c, c] > 0.0 else 0.0
            for i in range(D):
                for j in range(D):
                    m[i] += J[i, j] * (mean[e + 1, k, j] - filtered_mean[e, k, j])
                    lagged[e + 1, k, i, j] = 0.0
                    work[1, i, j] = 0.0
                    for c in range(D):
                        lagged[e + 1, k, i, j] += var[e + 1, k, i, c] * J[j, c]
                        work[1, i, j] += J[i, c] * (var[e + 1, k, c, j] - ahead[c, j])
            for i in range(D):
                for j in range(i + 1):
                    for c in range(D):
                        P[i, j] += work[1, i, c] * J[j, c]
                    P[j, i] = P[i, j]


@kernel
def full_expected(X, mean, var, parts, begins, epoch, out):
    """E log N(x | phi, R) of rows (N, D) at smoothed moments (K, ..); -inf before birth."""
    whitener, precision, norm = parts
    N, D = X.shape
    K = len(mean)
    own, gap, spread, places = np.empty((D, D)), np.empty(D), np.empty(K), np.zeros((K, D))
    for k in range(K):
        spread[k] = _trace(precision, var[k])
        for i in range(D):
            for j in range(i + 1):
                places[k, i] += whitener[i, j] * mean[k, j]
    for i in range(N):
        whole = not math.isnan(X[i].sum())
        if whole:
            gap[:] = 0.0
            for c in range(D):
                for d in range(c + 1):
                    gap[c] += whitener[c, d] * X[i, d]
        else:
            own_norm = _present(X[i], precision, norm, own)
        for k in range(K):
            if begins[k] > epoch:
                out[i, k] = -np.inf
            elif whole:
                total = norm + spread[k]
                for c in range(D):
                    total += (gap[c] - places[k, c]) ** 2
                out[i, k] = -0.5 * total
            else:
                for c in range(D):
                    gap[c] = X[i, c] - mean[k, c]
                out[i, k] = -0.5 * (own_norm + _form(own, gap, gap) + _trace(own, var[k]))


@inner
def _log_normal(x, mean, root, work, gap):
    """Log N(x | mean, root root') of the present values of x (D,)."""
    n = 0
    for i in range(len(x)):
        if math.isnan(x[i]):
            continue
        gap[0, n] = x[i] - mean[i]
        m = 0
        for j in range(i + 1):
            if not math.isnan(x[j]):
                work[0, n, m] = 0.0
                for c in range(j + 1):
                    work[0, n, m] += root[i, c] * root[j, c]
                m += 1
        n += 1
    _root(work[0, :n, :n], work[1, :n, :n])
    _solve(work[1, :n, :n], gap[0, :n], gap[1, :n])
    out = 0.0
    for c in range(n):
        out -= 0.5 * (_LOG_2PI + gap[1, c] * gap[1, c]) + math.log(max(work[1, c, c], 1e-300))
    return out


@inner
def _next_row(mean, cov, info, shift, noise, centre, root, work, gap):
    """Mean (D,) and root (D, D) of the covariance of a component's next row; log |2 pi V| of it."""
    D = len(mean)
    centre[:] = mean
    root[:] = cov
    _update(centre, root, info, shift, 0.0, work, gap)
    work[0] = root
    work[0] += noise
    _root(work[0], root)
    norm = D * _LOG_2PI
    for c in range(D):
        norm += 2.0 * math.log(max(root[c, c], 1e-300))
    return norm


@kernel
def seat_full(law, X, start, K, a0, log_new, arrays, out):
    """Assign rows one by one with `seat_row`, as `seat_drift` does."""
    birth_var, noise, precision, norm = law
    past, size, info, shift, mean, cov = arrays
    q, scores, chances = out
    N, D = X.shape
    C = size.shape[0]
    work, gap, own = np.empty((3, D, D)), np.empty((2, D)), np.empty((D, D))
    norms, centre, root = np.empty(C), np.empty((C, D)), np.empty((C, D, D))
    log_p = np.empty(C)
    ready = 0  # components with a computed next row
    for i in range(start, N):
        if K == C:
            return i, K
        mean[K], cov[K], info[K], shift[K] = 0.0, birth_var, 0.0, 0.0  # may be opened
        for k in range(ready, K + 1):
            norms[k] = _next_row(
                mean[k], cov[k], info[k], shift[k], noise, centre[k], root[k], work, gap
            )
        ready = K + 1
        whole = not math.isnan(X[i].sum())
        if whole:
            own[:] = precision
        else:
            _present(X[i], precision, norm, own)
        for k in range(K + 1):
            if whole:
                log_p[k] = -0.5 * norms[k]
                for c in range(D):
                    gap[0, c] = X[i, c] - centre[k, c]
                _solve(root[k], gap[0], gap[1])
                for c in range(D):
                    log_p[k] -= 0.5 * gap[1, c] * gap[1, c]
            else:
                log_p[k] = _log_normal(X[i], centre[k], root[k], work, gap)
        for k in range(K):
            q[i, k] = math.log(a0 + past[k] + size[k]) + log_p[k]
        K = seat_row(
            q[i], log_new + log_p[K], log_p[K] != 0.0, K, -np.inf, _LEAST, past, size,
            scores[i : i + 1], chances[i],
        )  # fmt: skip
        for k in range(K):
            if q[i, k] > 0.0:
                _add_row(q[i, k], X[i], own, info[k], shift[k])
                norms[k] = _next_row(
                    mean[k], cov[k], info[k], shift[k], noise, centre[k], root[k], work, gap
                )
    return N, K
