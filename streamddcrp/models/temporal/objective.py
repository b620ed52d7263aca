"""Objective of the temporal mixture: a monitor for every window, a rigorous bound for small data.

The objective is E log p(c), the expected log likelihood less the divergence of the components from
their prior, and the entropy of the assignments. Right after smoothing the second part is the sum of
the components' log evidences, exactly. The first is a sum over epochs and components of
E[g(X', m)], g(x, m) = log Gamma(a0 + x + m) - log Gamma(a0 + x), X' the decayed past and m the
count of the epoch: sums of independent Bernoullis of several weights, for which the monitor takes
moments and the bound a convex order.
"""

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import gammaln

from streamddcrp.models.temporal.kernels.counts import LOG_ZERO, MEAN
from streamddcrp.typing import FloatArray

if TYPE_CHECKING:
    from streamddcrp.models.temporal.engine import Engine, Settings


class Objective(NamedTuple):
    """Parts of the objective of a window, in nats.

    Attributes
    ----------
    counts : float
        E log p(c), given what is known of the epochs before the window; second-order expectations.
    evidence : float
        Sum of the components' log evidences over the window.
    entropy : float
        Of the assignments.
    names : float
        log of the number of ways to name the components that are expected to be occupied: without
        it, numbers of components cannot be compared.
    """

    counts: float
    evidence: float
    entropy: float
    names: float

    @property
    def total(self) -> float:
        """Sum of the parts."""
        return self.counts + self.evidence + self.entropy + self.names


def objective(engine: "Engine") -> Objective:
    """Return the objective of the window of an engine; a monitor, not a bound.

    Off by some hundredths of a nat where assignments are soft, exact where they are hard. O(N K)
    for N rows in the window and K components, and a smoothing of all components.
    """
    if not engine.rows or not engine.n_components:
        return Objective(0.0, 0.0, 0.0, 0.0)
    settings = engine.settings
    terms = engine.terms(engine.resp, engine.before)
    past = engine.decayed(engine.moments(engine.resp), engine.before)[:-1, :, MEAN]
    sizes = np.array([len(q) for q in engine.resp])
    silent = terms.log_zero + engine.before[:, :, LOG_ZERO].sum(axis=0)
    occupied = -float(np.expm1(silent).sum())
    slots = max(settings.slots, engine.n_components)
    return Objective(
        counts=_of_epochs(settings.alpha + past.sum(axis=1), sizes) + float(terms.counts.sum()),
        evidence=float(engine.smooth().log_z.sum()),
        entropy=float(terms.entropy.sum()),
        names=math.lgamma(slots + 1.0) - math.lgamma(slots - occupied + 1.0),
    )


def _of_epochs(total: FloatArray, sizes: FloatArray) -> float:
    """Part of log p(c) that knows no assignments; ``total`` is all prior mass of an epoch."""
    return float((gammaln(total) - gammaln(total + sizes)).sum())


def exact_bound(resp: list[FloatArray], evidence: float, settings: "Settings") -> float:
    """Return a lower bound on log p(x), whatever the assignments.

    Parameters
    ----------
    resp : list of ndarray of float64, shape (N_t, K)
        Assignments of all epochs, from the first one of the stream.
    evidence : float
        Sum of the components' log evidences under them, or of the expected log likelihoods where
        these are known.
    settings : Settings
        Concentration, weights and slots of the finite model.

    Notes
    -----
    O(K T N²) for N rows in ``width`` epochs: for tests and small data.
    """
    entropy = -sum(float((q[q > 0.0] * np.log(q[q > 0.0])).sum()) for q in resp)
    return count_bound(resp, settings) + evidence + entropy


def count_bound(resp: list[FloatArray], settings: "Settings") -> float:
    """Return a lower bound on E log p(c).

    For a fixed m, g(x, m) is concave in x, and each Bernoulli of weight kappa_d in the decayed past
    is dominated in convex order by one of the largest weight with the same mean. So the past may be
    replaced by that weight times a Poisson binomial. Exact where all weights are equal, as with a
    width of one epoch.
    """
    kappa = settings.kappa
    largest = max(kappa)
    sizes = np.array([len(q) for q in resp])
    total = np.full(len(resp), settings.alpha)
    out = 0.0
    for t, now in enumerate(resp):
        window = [(weight, t - d) for d, weight in enumerate(kappa, start=1) if t >= d]
        total[t] += sum(weight * sizes[s] for weight, s in window)
        for k in np.flatnonzero(now.sum(axis=0) > 0.0):
            before = [resp[s][:, k] * (weight / largest) for weight, s in window]
            past, count = _law(np.concatenate([np.zeros(0), *before])), _law(now[:, k])
            x = settings.a0 + largest * np.arange(len(past))[:, None]
            out += float(past @ (gammaln(x + np.arange(len(count))) - gammaln(x)) @ count)
    return out + _of_epochs(total, sizes)


def _law(probs: FloatArray) -> FloatArray:
    """Return the law of the number of successes of independent trials."""
    law = np.ones(1)
    for p in probs[probs > 0.0]:
        law = np.convolve(law, [1.0 - p, p])
    return law
