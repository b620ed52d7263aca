"""What the counts of the epochs say about alpha and about how far the past counts.

alpha is the mode given expected births, with a Gamma prior worth one birth. The kernel
exp(-d / scale) is, of some scales, the one under which the counts are most probable: the only part
of the objective that knows it. Epochs that have left the window count by sums that fade.
"""

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import digamma, gammaln

from streamddcrp.models.temporal.kernels.counts import LOG_ZERO, count_terms, decay_moments
from streamddcrp.typing import FloatArray

if TYPE_CHECKING:
    from streamddcrp.models.temporal.engine import Engine

FADE = 0.98  # an epoch, of what is learned from
_SCALES = np.array([0.2, 0.3, 0.45, 0.7, 1.0, 1.5, 2.2])
_LEAST = 0.04  # weight of an epoch that counts, so that the cut hardly shows
_DELTA = np.arange(1.0, 8.0)
KERNELS = np.exp(-_DELTA / _SCALES[:, None])
KERNELS[(KERNELS < _LEAST) & (_DELTA > 1.0)] = 0.0


def _sizes(engine: "Engine") -> FloatArray:
    """Return the rows of the epochs that count for the window, and of the window's own."""
    return np.array([*engine.sizes, *map(len, engine.resp)], dtype=np.float64)


def _past(sizes: FloatArray, kappa: FloatArray) -> FloatArray:
    """Return the decayed past rows of the window's epochs, (E,)."""
    W = len(kappa)
    return np.convolve(sizes, kappa)[W - 1 : len(sizes) - 1]


def births_of(engine: "Engine") -> FloatArray:
    """Return expected births of the window's epochs, and that over alpha in theory, (E, 2)."""
    now = engine.moments(engine.resp)
    past = engine.decayed(now, engine.before)[:-1]
    born = np.exp(past[:, :, LOG_ZERO]) * -np.expm1(now[:, :, LOG_ZERO])
    kappa, sizes = np.array(engine.settings.kappa), _sizes(engine)
    mass, rows = engine.settings.alpha + _past(sizes, kappa), sizes[len(kappa) :]
    return np.stack([born.sum(axis=1), digamma(mass + rows) - digamma(mass)], axis=1)


def fitted_alpha(engine: "Engine") -> float:
    """Return (1 + B) / (1 / first alpha + sum of psi(A + N) - psi(A)), B expected births."""
    births, chances = births_of(engine).sum(axis=0) + engine.alpha_sums
    return float((1.0 + births) / (1.0 / engine.first_alpha + chances))


def kernel_gains(engine: "Engine") -> FloatArray:
    """Return E log p(counts) of the window's epochs under every kernel, (E, G)."""
    now, sizes = engine.moments(engine.resp), _sizes(engine)
    rows, alpha = sizes[KERNELS.shape[1] :], engine.settings.alpha
    past, terms = np.empty((len(now) + 1, *now.shape[1:])), np.empty(now.shape[:2])
    out = np.empty((len(now), len(KERNELS)))
    for g, kappa in enumerate(KERNELS):
        decay_moments(engine.before, now, kappa, past)
        count_terms(now, past[:-1], engine.settings.a0, terms)
        mass = alpha + _past(sizes, kappa)
        out[:, g] = terms.sum(axis=1) + gammaln(mass) - gammaln(mass + rows)
    return out


def fitted_kappa(engine: "Engine") -> tuple[float, ...]:
    """Return the weights under which the counts of all epochs are most probable."""
    gains = engine.kappa_sums + kernel_gains(engine).sum(axis=0)
    return tuple(KERNELS[int(gains.argmax())].tolist())
