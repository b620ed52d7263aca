"""Surprise relative to the knowledge of an earlier moment."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from streamddcrp.arguments import number_array
from streamddcrp.contract import LIVE
from streamddcrp.data import Vectorizer
from streamddcrp.data.batches import read_batch
from streamddcrp.errors import ConfigError
from streamddcrp.estimator.reasons import asked, explained
from streamddcrp.estimator.stored import Stored, past_of
from streamddcrp.likelihoods import Likelihood, likelihood_from_config
from streamddcrp.likelihoods.kernels.families import log_predictives, n_post, posteriors
from streamddcrp.likelihoods.kernels.parts import explain
from streamddcrp.likelihoods.kernels.union import mixture_scores
from streamddcrp.likelihoods.restored import take_up
from streamddcrp.models.seqddcrp.engine import Engine
from streamddcrp.records import MOST, REAL, Within, check_one, refuse_if
from streamddcrp.typing import FloatArray, IntArray

_FEW = 5.0  # rows; smaller tables may not yet be known


class Reference(Stored):
    """A copy of a model's tables, and the surprise of later rows relative to it.

    `SeqDDCRP.score_one` gives the surprise to the present model; when something new lasts, the
    model learns it within a few rows and is no longer surprised. A reference learns nothing. Its
    surprise is that of the mixture of its tables, weighted by their sizes:

        -log sum_m w_m p(x | rows of table m),    w_m = n_m / sum_l n_l.

    Created by `SeqDDCRP.reference`; later changes of the model do not affect it.

    Attributes
    ----------
    ids : ndarray of int64, shape (K,)
        Ids of the tables in the model.
    weights : ndarray of float64, shape (K,)
    past : ndarray of float64, shape (n_lags, D), or None
        The rows before the next one, for an autoregressive likelihood: initially the last ones that
        the model learned. When scoring batch after batch, set it to the last rows of each.

    Notes
    -----
    O(K D) a row (O(K D^2) for full covariances), about a microsecond; memory O(K P). Missing values
    are treated as by the likelihood, unseen words of an open vocabulary by its prior, and other
    unknown features are ignored.

    Examples
    --------
    >>> from streamddcrp import SeqDDCRP
    >>> model = SeqDDCRP(likelihood=("normal_gamma", 0.0, 0.05, 1.5, 0.5))
    >>> model.learn_many([[0.1], [-0.2], [0.3], [0.1], [0.0], [-0.1]])
    >>> usual = model.reference()
    >>> model.learn_many([[9.0]] * 20)
    >>> model.score_one({0: 9.0}), usual.score_one({0: 9.0})
    (0.3, 20.5)
    >>> usual.score_many([[0.5], [9.0]]).round(1)
    array([ 0.6, 20.5])
    """

    def __init__(
        self, likelihood: Likelihood, hyper: FloatArray, stats: FloatArray, ids: IntArray,
        vectorizer: Vectorizer, past: FloatArray | None = None,
    ) -> None:  # fmt: skip
        self.ids = ids
        self.past = past
        self.weights = stats[:, 0] / np.sum(stats[:, 0])
        self._likelihood = likelihood
        self._vectorizer = vectorizer
        self._hyper, self._stats = hyper, stats
        self._post = self._posteriors(hyper, stats)

    def score_one(self, x: Mapping[Any, Any]) -> float:
        """Return the surprise of a row in nats; SchemaError as of `SeqDDCRP.learn_one`."""
        new = self._vectorizer.open
        return float(self._score(lambda: self._vectorizer.row(x, learn=new))[0])

    def score_many(self, batch: object) -> FloatArray:
        """Return the surprise (N,) of each row of a batch in nats, in one compiled call."""
        new = self._vectorizer.open
        return self._score(lambda: read_batch(batch, self._vectorizer, learn=new).X)

    def _explain_row(self, x: FloatArray, past: FloatArray | None) -> tuple[int, Any]:
        """Explain a checked row (D,): the id of the likeliest table, and what `explained` says."""
        rows, _ = self._likelihood.prepare(x[np.newaxis], past)
        own = np.empty(len(self._post))
        log_predictives(
            self._likelihood.family, self._hyper, self._post, np.ascontiguousarray(rows[0]),
            len(own), own,
        )  # fmt: skip
        log_weights = np.log(self.weights)
        home = int(np.argmax(own + log_weights))
        at, parts, out, view = asked(self._likelihood, x, past, len(own))
        explain(
            self._likelihood.family, self._hyper, self._hyper.copy(), self._post, self._post[0],
            len(own), log_weights, home, parts, out, view,
        )  # fmt: skip
        return int(self.ids[home]), explained(self._likelihood, x, at, out, view)

    def _score_rows(self, X: FloatArray) -> FloatArray:
        """Return the surprise of checked rows (N, D) in the order of the columns."""
        return self._score(lambda: X)

    def _score(self, read: Callable[[], FloatArray]) -> FloatArray:
        """Read rows and score them; new words count in the score, but are not stored."""
        mark = self._vectorizer.mark()
        try:
            X = read().copy()
            names = [str(name) for name in self._vectorizer.columns or ()]
        finally:
            self._vectorizer.rollback(mark)
        self._likelihood.check_rows(X, names)
        rows, _ = self._likelihood.prepare(X, self.past)
        hyper, post = self._hyper, self._post
        if rows.shape[1] > hyper[0]:  # new words: their statistics follow the others
            hyper = self._likelihood.hyper(X.shape[1])
            more = self._likelihood.n_stats(X.shape[1]) - self._stats.shape[1]
            post = self._posteriors(hyper, np.pad(self._stats, ((0, 0), (0, more))))
        out, space, code = np.empty(len(X)), np.empty(len(post)), self._likelihood.family
        mixture_scores(code, hyper, post, np.log(self.weights), rows, space, out)
        slopes = self._likelihood.log_slopes(X)
        return out if slopes is None else out - slopes

    def _posteriors(self, hyper: FloatArray, stats: FloatArray) -> FloatArray:
        family = self._likelihood.family
        post = np.empty((len(stats), int(n_post(family, hyper))))
        posteriors(family, hyper, np.ascontiguousarray(stats), len(stats), post)
        return post

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        arrays = {"ids": self.ids, "stats": self._stats, "hyper": self._hyper}
        if self.past is not None:
            arrays["past"] = self.past
        meta = {
            "likelihood": self._likelihood.to_config(),
            "vectorizer": self._vectorizer.to_config(),
        }
        return arrays, meta

    @classmethod
    def _from_state(cls, arrays: dict[str, Any], meta: dict[str, Any]) -> Self:
        likelihood = likelihood_from_config(meta["likelihood"])
        vectorizer = Vectorizer.from_config(meta["vectorizer"])
        D, n = vectorizer.n_features, len(arrays["ids"])
        # words that came after the reference are not in it
        D_then = int(arrays["hyper"][0]) if vectorizer.open else D
        refuse_if(not 0 <= D_then <= D or n == 0, "features")
        shape = (n, likelihood.n_stats(D_then))
        check_one("ids", arrays["ids"], (n,), np.int64, Within(0, MOST))
        check_one("stats", arrays["stats"], shape, np.float64, REAL)
        hyper = likelihood.hyper(D_then)
        take_up(likelihood.family, hyper, arrays)
        return cls(
            likelihood, hyper, arrays["stats"], arrays["ids"], vectorizer,
            past_of(likelihood, arrays, D),
        )  # fmt: skip


def reference_of(
    stream: Engine | None, vectorizer: Vectorizer, ids: Sequence[int] | None
) -> Reference:
    """Copy tables of a stream into a reference; see `SeqDDCRP.reference`."""
    if stream is None:
        raise ConfigError("reference: no table yet; learn the rows of the warm-up first")
    table = stream.state.table
    live = np.flatnonzero(table.stats[: stream.state.n_tables, 0] >= LIVE)
    if ids is None:
        large = live[table.stats[live, 0] >= _FEW]
        chosen = large if len(large) else live
    else:
        wanted = number_array("ids", ids, whole=True).tolist()
        chosen = live[np.isin(table.ids[live], wanted)]
        unknown = sorted(set(wanted) - set(table.ids[chosen].tolist()))
        if unknown or not len(chosen):
            raise ConfigError(
                f"reference: expected ids of live tables, {table.ids[live].tolist()}, "
                f"got {unknown or ids}; summary() lists them"
            )
    return Reference(
        stream.likelihood, stream.config.hyper.copy(), table.stats[chosen],
        table.ids[chosen], Vectorizer.from_config(vectorizer.to_config()), stream.past,
    )  # fmt: skip
