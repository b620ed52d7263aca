"""Features of windows of a periodic signal, and its period.

Everything runs in numpy on whole batches. Each window is computed from its own rows alone, so the
cuts between batches cannot matter.
"""

from collections.abc import Sequence

import numpy as np

from streamddcrp.errors import SchemaError
from streamddcrp.typing import FloatArray, IntArray

SHORTEST = 8  # rows in the shortest period considered
N_BANDS = 6
NOISE = 1e-3  # smaller amplitudes are noise; keeps logarithms and ratios finite
FEATURES = (
    "mean", "log_sd", "log_sd_step", "skew", "skew_step",
    *(f"log_band_{b}" for b in range(1, N_BANDS + 1)),
)  # fmt: skip


def dominant_period(X: FloatArray) -> int:
    """Return the period, in rows, with most energy in a signal's first rows (N, D), N >= 64.

    It is the highest peak of the periodogram (linear trend removed, Hann window), summed over
    equally scaled columns, among periods of 8 rows to an eighth of the rows.

    >>> dominant_period(np.sin(2 * np.pi * np.arange(256.0) / 16)[:, None])
    16
    """
    n = len(X)
    time = np.linspace(-1.0, 1.0, n)
    centred = X - X.mean(axis=0)
    centred -= np.outer(time, time @ centred) / (time @ time)
    scale = centred.std(axis=0)
    centred /= np.where(scale > 0.0, scale, 1.0)
    power = (np.abs(np.fft.rfft(centred * np.hanning(n)[:, None], axis=0)) ** 2).sum(axis=1)
    first, last = 8, n // SHORTEST  # frequencies, in cycles over all rows
    peak = first + int(power[first : last + 1].argmax())
    low, middle, high = np.log(power[peak - 1 : peak + 2] + 1e-300)
    curvature = low - 2.0 * middle + high
    shift = 0.5 * (low - high) / curvature if curvature < 0.0 else 0.0
    return round(n / (peak + min(max(shift, -0.5), 0.5)))


def window_features(X: FloatArray, length: int, hop: int) -> FloatArray:
    """Return the features of all whole windows of a signal (N, D) in units of its usual amplitude.

    Of shape (1 + (N - length) // hop, 11 D), for each column in the order of `FEATURES`: mean; log
    standard deviation of the values and of their steps; skewness of both; log amplitude in six
    bands of the periodogram (Hann window), log-spaced from one cycle a window to one in two rows.
    O(length log length) a window; ``length`` is at least 12.
    """
    windows = np.lib.stride_tricks.sliding_window_view(X, length, axis=0)[::hop]
    rows = np.array(windows, order="C")  # (windows, D, length): sums run along memory
    mean = rows.mean(axis=-1)
    rows -= mean[..., None]
    step = np.diff(rows, axis=-1)
    log_sd, skew = _spread_and_skew(rows)
    log_sd_step, skew_step = _spread_and_skew(step - step.mean(axis=-1, keepdims=True))
    power = np.abs(np.fft.rfft(rows * np.hanning(length), axis=-1)) ** 2
    edges = _band_edges(power.shape[-1])
    energy = np.add.reduceat(power, edges[:-1], axis=-1) / length**2
    bands = 0.5 * np.log(energy + NOISE**2)
    moments = np.stack([mean, log_sd, log_sd_step, skew, skew_step], axis=-1)
    return np.concatenate([moments, bands], axis=-1).reshape(len(rows), -1)


def _spread_and_skew(centred: FloatArray) -> tuple[FloatArray, FloatArray]:
    square = centred * centred
    sd = np.sqrt(square.mean(axis=-1)) + NOISE
    return np.log(sd), (square * centred).mean(axis=-1) / sd**3


def _band_edges(n_bins: int) -> IntArray:
    """First bins of the bands, log-spaced from bin 1 (bin 0 is the mean), at least one bin each."""
    edges = np.round(np.geomspace(1, n_bins, N_BANDS + 1)).astype(np.int64)
    steps = np.arange(N_BANDS + 1)
    return np.maximum.accumulate(edges - steps) + steps


def refuse_beyond(X: FloatArray, names: Sequence[str]) -> None:
    """Refuse values beyond 1e100, whose squares overflow: SchemaError with the first ``row``."""
    bad = np.abs(X) > 1e100
    if bad.any():
        i, j = (int(index) for index in np.argwhere(bad)[0])
        raise SchemaError(
            f"row {i}, column {names[j]!r}: expected a number between -1e100 and 1e100, got "
            f"{X[i, j]}; correct the value, or leave it missing",
            row=i,
        )
