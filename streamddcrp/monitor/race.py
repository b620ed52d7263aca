"""Compare models on one stream: which forecasts best, with anytime-valid evidence."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import scipy
from numpy.typing import ArrayLike

from streamddcrp.arguments import checked, number_array
from streamddcrp.cards import ResultCard
from streamddcrp.errors import ConfigError
from streamddcrp.typing import FloatArray


@dataclass(frozen=True, slots=True)
class Race(ResultCard):
    """How well M models have forecast the same N rows.

    Attributes
    ----------
    names : tuple of str
        The models, in the given order.
    log_evidence : ndarray of float64, shape (M,)
        Log probability, in nats, of each model's successive forecasts of the rows.
    largest : ndarray of float64, shape (M,)
        Largest lead so far, in nats, of the mean of the other models over this one.
    n_rows : int
        N, the rows that all models forecast.
    """

    names: tuple[str, ...]
    log_evidence: FloatArray
    largest: FloatArray
    n_rows: int

    @property
    def probs(self) -> FloatArray:
        """Posterior probability (M,) of each model, with equal priors."""
        probs: FloatArray = scipy.special.softmax(self.log_evidence)
        return probs

    @property
    def p_values(self) -> FloatArray:
        """Evidence (M,) against each model, valid at any time: small where others lead far.

        If rows follow a model's forecasts, the mean of the others' Bayes factors against it is a
        martingale of mean 1. By Ville's inequality it ever reaches 1/p with probability at most p.
        """
        smallest: FloatArray = np.exp(-self.largest)
        return smallest

    def summary(self) -> pa.Table:
        """Return a row per model, best first: name, log_evidence, behind, prob, p_value."""
        order = np.argsort(-self.log_evidence, kind="stable")
        columns = {
            "model": [self.names[m] for m in order],
            "log_evidence": self.log_evidence[order],
            "behind": self.log_evidence.max() - self.log_evidence[order],
            "prob": self.probs[order],
            "p_value": self.p_values[order],
        }
        return pa.table(columns)


@checked
def race(scores: Mapping[str, ArrayLike], after: Race | None = None) -> Race:
    """Compare models by their surprise at the same rows.

    Parameters
    ----------
    scores : mapping of str to array_like, shape (N,)
        The column ``score`` of each model's results, in nats. All must be densities, or all
        probabilities, of the same columns. A row without a score in some model, as in warm-up, is
        skipped for all.
    after : Race, optional
        The result of the same models for the previous rows: streams are compared batch by batch.

    Returns
    -------
    Race

    Raises
    ------
    ConfigError
        Fewer than two models, scores of different lengths, or other models than in ``after``.

    Notes
    -----
    Scores that come with the label are forecasts made before the row was learned, so their sum is
    -log of a probability of all rows: for `DDCRPSampler` an unbiased estimate of the evidence, for
    `SeqDDCRP` the evidence of its own forecasts. O(M N).

    Examples
    --------
    >>> from streamddcrp import SeqDDCRP, race
    >>> rows = [[(i // 20) % 2 * 8.0 + i % 3] for i in range(200)]
    >>> scores = {}
    >>> for name, recall in {"new tables only": False, "with recall": True}.items():
    ...     model = SeqDDCRP(likelihood=("normal_gamma", 0.0, 0.01, 2.0, 2.0), recall=recall)
    ...     scores[name] = model.step_many(rows)["score"]
    >>> race(scores).summary()["model"][0].as_py()
    'with recall'
    """
    if len(scores) < 2:
        raise ConfigError("scores: give those of two models or more, by name")
    names = tuple(scores)
    if after is not None and after.names != names:
        raise ConfigError(f"scores are of {names}, those before them of {after.names}")
    columns = [number_array(f"scores[{name!r}]", column) for name, column in scores.items()]
    if len({*map(len, columns)}) > 1:
        raise ConfigError(f"scores differ in length: {', '.join(map(str, map(len, columns)))}")
    rows = np.column_stack(columns)
    if np.isinf(rows).any():
        row, m = np.argwhere(np.isinf(rows))[0]
        raise ConfigError(f"scores[{names[m]!r}]: row {row} is infinite")
    rows = rows[~np.isnan(rows).any(axis=1)]
    first = after or Race(names, np.zeros(len(names)), np.zeros(len(names)), 0)
    forecast = first.log_evidence - np.cumsum(rows, axis=0)  # (N, M)
    others = [np.delete(forecast, m, axis=1) for m in range(len(names))]
    lead = np.column_stack([scipy.special.logsumexp(other, axis=1) for other in others])
    lead -= forecast + np.log(len(names) - 1)
    return Race(
        names,
        forecast[-1] if len(rows) else first.log_evidence,
        np.maximum(first.largest, lead.max(axis=0, initial=0.0)),
        first.n_rows + len(rows),
    )
