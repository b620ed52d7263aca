"""Facts about a model from particles: log evidence with a standard error, number of regimes."""

import math
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
import scipy

from streamddcrp.arguments import checked, generator
from streamddcrp.cards import ResultCard
from streamddcrp.errors import ConfigError
from streamddcrp.models.ddcrp.engine import given_weights, step
from streamddcrp.models.ddcrp.estimator import DDCRPSampler
from streamddcrp.models.ddcrp.state import empty_state, make_config
from streamddcrp.models.seqddcrp.estimator import SeqDDCRP
from streamddcrp.models.seqddcrp.kernels.layout import LOG_ALPHA, N_ROWS
from streamddcrp.typing import FloatArray
from streamddcrp.validation import whole

PARTICLES = 100  # that represent a `SeqDDCRP`
COUNTING = 1000  # particles that count regimes


@dataclass(frozen=True, slots=True)
class Evidence(ResultCard):
    """A log evidence from G runs.

    Attributes
    ----------
    log_evidence : float
        Log of the mean of the runs' estimates, which are unbiased.
    error : float
        Its standard error.
    runs : ndarray of float64, shape (G,)
        Log evidence of each run.
    n_tables_probs : ndarray of float64, shape (K + 1,), or None
        Posterior probability that the rows opened 0 to K tables, with runs weighted by their
        evidence. For `DDCRPSampler` and `SeqDDCRP`.
    bound : float, optional
        For a `SeqDDCRP`, its lower bound after the same rows.
    """

    log_evidence: float
    error: float
    runs: FloatArray
    n_tables_probs: FloatArray | None = None
    bound: float | None = None

    @property
    def gap(self) -> float | None:
        """Nats by which the bound lies below the evidence, with the same standard error."""
        return None if self.bound is None else self.log_evidence - self.bound

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return an interval that holds the log evidence with this probability, by Student's t.

        Reliable if runs differ by about a nat; for larger differences use more particles.
        """
        if not 0.0 < level < 1.0:
            raise ConfigError(f"level must be above 0 and below 1, got {level!r}")
        half = float(scipy.special.stdtrit(len(self.runs) - 1, 0.5 + 0.5 * level)) * self.error
        return self.log_evidence - half, self.log_evidence + half


@checked
def estimate_evidence(
    model: Any, X: Any, *, n_runs: int = 10, seed: int | None = 0, **side: Any
) -> Evidence:
    """Estimate the log evidence of rows by independent runs of a particle model.

    Parameters
    ----------
    model : DDCRPSampler, GraphCRP, GroupDP, TimeVaryingIBP or SeqDDCRP
        Only its options are used; it does not change. A likelihood taken from first rows is that of
        the first run. For a `SeqDDCRP`, a copy learns the rows for the bound, and a `DDCRPSampler`
        of 100 particles with the same prior estimates the evidence.
    X : rows
        As for ``model.learn_many``.
    n_runs : int, default 10
        G, 2 or more.
    seed : int or None, default 0
    **side
        Further arguments of ``learn_many``: times ``t``, ``group``, ``parents``.

    Raises
    ------
    ConfigError
        The model has no particles, or is a `SeqDDCRP` whose prior is learned from the rows.

    Examples
    --------
    >>> from streamddcrp import GraphCRP, estimate_evidence
    >>> model = GraphCRP(likelihood=("normal_gamma", 0.0, 0.05, 1.5, 0.5), n_particles=5)
    >>> found = estimate_evidence(model, [[0.1], [8.2], [0.3], [7.9], [8.1], [-0.2], [0.0], [8.0]])
    >>> found.error < 0.5
    True
    """
    bound = None
    if isinstance(model, SeqDDCRP):
        learned = model.clone()
        learned.learn_many(X, **side)
        prior, bound = learned._plain_prior(), learned.bound
        model = DDCRPSampler(**prior, n_particles=PARTICLES, warmup=1)
    if not hasattr(model, "n_particles"):
        raise ConfigError(
            f"model: {type(model).__name__} has no particles, so its runs do not differ"
        )
    n_runs, runs = whole("n_runs", n_runs, 2), np.empty(0)
    options: dict[str, Any] = {}
    tables = []
    for rng in generator(seed).spawn(n_runs):
        run = model.clone({**options, "seed": int(rng.integers(1 << 62))})
        run.learn_many(X, **side)
        runs = np.append(runs, run.log_evidence)
        tables.append(getattr(run, "n_tables_probs", ()))
        if not options and hasattr(model, "likelihood") and run._engine is not None:
            options = {"likelihood": run._engine.likelihood}
    share = np.exp(runs - runs.max())
    log_mean = float(runs.max() + np.log(share.mean()))
    error = float(share.std(ddof=1) / (share.mean() * np.sqrt(n_runs)))
    probs = np.array([*zip_longest(*tables, fillvalue=0.0)]).reshape(-1, n_runs) @ share
    return Evidence(log_mean, error, runs, probs / share.sum() if len(probs) else None, bound)


@checked
def count_regimes(model: SeqDDCRP, least: int = 8) -> FloatArray:
    """Return the probabilities that the last rows come from 0, 1, 2, .. regimes.

    This is the posterior given these rows alone, under the model's present prior. Labels say which
    tables exist; this says how certain their number is. It is calibrated if the prior is true and
    regimes last, and overconfident if the prior was learned from tables that hold several clusters.
    Equation (11) of ``docs/math/states_over_tables.md``.

    Parameters
    ----------
    model : SeqDDCRP
        Does not change. The rows are those of its `recent_labels`.
    least : int, default 8
        Least rows of a table that counts: single odd rows are tables, not regimes.

    Returns
    -------
    ndarray of float64, shape (K + 1,)
        Sums to 1; in warm-up ``[1.0]``. A call takes some 40 ms.

    Raises
    ------
    ConfigError
        ``model`` is not a `SeqDDCRP`, or ``least`` is not a whole number of at least 1.

    Examples
    --------
    >>> from streamddcrp import SeqDDCRP, count_regimes
    >>> model = SeqDDCRP(likelihood=("normal_gamma", 0.0, 0.05, 1.5, 0.5))
    >>> model.learn_many([[0.1], [-0.2], [0.3], [8.1], [7.9], [8.2], [0.2]])
    >>> int(count_regimes(model, least=2).argmax())
    2
    """
    least = whole("least", least, 1)
    if not isinstance(model, SeqDDCRP):
        raise ConfigError(f"model must be a SeqDDCRP, got {type(model).__name__}")
    engine = model._stream
    if engine is None:
        return np.ones(1)
    config, state = engine.config, engine.state
    n_rows = int(state.counts[N_ROWS])
    x, t = state.rows.x[:n_rows], state.rows.t[:n_rows]
    ours = make_config(
        family=config.family, hyper=config.hyper, decay=engine.decay, clocked=True,
        alpha=math.exp(state.sums[LOG_ALPHA]), gamma=config.gamma if config.recall else None,
        n_particles=COUNTING, seed=0,
    )._replace(least=0.0)  # no table is dropped: it may have rows enough  # fmt: skip
    empty = empty_state(ours)
    seated, _ = step(ours, empty, x, t, given_weights(engine.decay, ours, empty, t))
    particles, sizes = seated.particles, seated.tables.stats[:, :, 0]
    there = np.arange(sizes.shape[1]) < particles.n_tables[:, None]
    counts = (there & (sizes > least - 0.5)).sum(axis=1)
    return np.bincount(counts, particles.weight).astype(np.float64)
