"""What a window says of the noise of drifting Gaussians, of their steps and of where they begin."""

import numpy as np

from streamddcrp.compilation import kernel

NOISE, DRIFT, BIRTH = 0, 1, 2
_SEEN = 0.5  # expected rows from which an epoch tells of a component
_HALF = 0.5 - 1e-9  # of the rows: rounding must not decide which component is in the middle


@kernel
def scale_sums(size, n_values, total, square, mean, var, lagged, begins, out):
    """Count and add up squares: of rows about their means, of steps, of means at birth.

    The noise of an epoch is the median of the components' variances by values: one that has
    swallowed another must not pass for noise. No step leads into the first epoch.

    Parameters
    ----------
    size : ndarray, shape (E, K)
        Expected rows of the components.
    n_values, total, square : ndarray, shape (E, K, D)
        Their values, sums and squares.
    mean, var, lagged : ndarray, shape (E, K, D)
        Smoothed moments, and covariances of the means with those of the epoch before.
    begins : ndarray, shape (K,)
        Epoch of birth, -1 if before the window.
    out : ndarray, shape (3, E, 2, D)
        By NOISE, DRIFT, BIRTH: how many, and the sum of their squares.
    """
    E, K, D = total.shape
    out[:] = 0.0
    value = np.empty(K)
    for e in range(E):
        for c in range(D):
            there = 0.0
            for k in range(K):
                n, m = n_values[e, k, c], mean[e, k, c]
                value[k] = np.inf
                if n > _SEEN:
                    about = square[e, k, c] - 2.0 * total[e, k, c] * m
                    value[k] = max(about + n * (m * m + var[e, k, c]), 0.0) / n
                    there += n
                if begins[k] == e:
                    out[BIRTH, e, 0, c] += 1.0
                    out[BIRTH, e, 1, c] += m * m + var[e, k, c]
                if begins[k] < e and size[e, k] > _SEEN and e > 0 and size[e - 1, k] > _SEEN:
                    step = (m - mean[e - 1, k, c]) ** 2 + var[e, k, c] + var[e - 1, k, c]
                    out[DRIFT, e, 0, c] += 1.0
                    out[DRIFT, e, 1, c] += max(step - 2.0 * lagged[e, k, c], 0.0)
            reached = 0.0
            for k in np.argsort(value):
                if value[k] == np.inf:
                    break
                reached += n_values[e, k, c]
                if reached >= _HALF * there:
                    out[NOISE, e, 0, c] = there
                    out[NOISE, e, 1, c] = there * value[k]
                    break
