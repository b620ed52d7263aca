"""The temporal Dirichlet-process mixture as a streaming estimator."""

import logging
import math
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from river import base

from streamddcrp.checkpoint.codec import decode_state, encode_state
from streamddcrp.errors import CheckpointError, ConfigError, SchemaError, StreamDDCRPError
from streamddcrp.estimators.batches import batch_times, read_batch
from streamddcrp.estimators.documents import Vocabulary, is_text, read_document, read_documents
from streamddcrp.estimators.epochs import Piece, Place, make_cut
from streamddcrp.estimators.events import Event
from streamddcrp.estimators.evolving import Evolving
from streamddcrp.estimators.evolving_state import (
    EMISSIONS,
    emission_from_json,
    emission_to_json,
    from_state,
    to_state,
)
from streamddcrp.estimators.options import from_json, to_json
from streamddcrp.estimators.stored import Stored
from streamddcrp.estimators.tracks import components, final_labels, trajectories
from streamddcrp.estimators.views import no_tables, predictions
from streamddcrp.inference.seqddcrp_vb._kernels_layout import LABEL, LIVE_TABLES, N_OUTPUTS, SCORE
from streamddcrp.inference.tdpm_cvb.drift import GaussianDrift
from streamddcrp.inference.tdpm_cvb.engine import Engine, Settings
from streamddcrp.inference.tdpm_cvb.logistic import LogisticNormalText
from streamddcrp.inference.tdpm_cvb.options import check_whole, past_weights
from streamddcrp.inference.tdpm_cvb.scales import guesses
from streamddcrp.inference.tdpm_cvb.text import TextDecay
from streamddcrp.stream import Vectorizer, as_time, check_clocked
from streamddcrp.typing import FloatArray, IntArray

__all__ = ["TemporalDPM"]

_log = logging.getLogger(__name__)
_MODEL_ID = "TemporalDPM"
_VERSION = 1
_MOST_WAIT = 4  # times the warm-up, at most, within an epoch
_SPREADS = (0.03, 0.01, 0.003)  # of the first rows' variance: noise where clusters are many
_LARGEST = 1e40  # of a number: squares and their ratios must not overflow
_TEXT, _GAUSSIAN = "text", "gaussian"


class Waiting(NamedTuple):
    """Rows of the warm-up, with the numbers and times of their epochs."""

    X: FloatArray
    number: IntArray
    t: FloatArray

    def and_then(self, X: FloatArray, piece: Piece) -> "Waiting":
        """Return these rows and more."""
        return Waiting(
            np.concatenate([self.X.reshape(-1, X.shape[1]), X]),
            np.concatenate([self.number, np.full(len(X), piece.number)]),
            np.concatenate([self.t, np.full(len(X), piece.time)]),
        )

    def taught(self, model: Evolving) -> tuple[Evolving, float]:
        """Let a model learn the rows; return it and how much they surprised it."""
        surprise = 0.0
        starts = [0, *(np.flatnonzero(np.diff(self.number)) + 1).tolist()]
        for a, b in zip(starts, [*starts[1:], len(self.X)], strict=True):
            model.go_to(int(self.number[a]))
            surprise += float(model.seat(self.X[a:b], float(self.t[a]))[:, SCORE].sum())
        return model, surprise


_NOTHING = Waiting(np.empty((0, 0)), np.empty(0, np.int64), np.empty(0))


class TemporalDPM(Stored, base.Clusterer):
    """Temporal Dirichlet-process mixture: clusters that drift, appear and die, epoch by epoch.

    Rows come in epochs: days, batches, years. A component of an epoch is as likely as it was
    large in the epochs before, whose weight decays; its mean or its words drift. Rows are seated
    as they arrive, which is where components are born; when their epoch ends, the last epochs are
    swept to and fro and components merged, deleted and split where that pays, so that labels
    become final only when their epoch leaves this window. Memory depends on the window and on the
    live components.

    Parameters
    ----------
    epoch : None, number, str or tuple, default None
        Where epochs end. None: at every new value of ``t``; a batch without ``t`` is one epoch. A
        number, or a text such as "1d", "6h", "15min", "30s": after a period of ``t``, in its unit,
        which is seconds for text and time stamps; periods without rows are empty epochs.
        ``("rows", 100)`` or "100 rows": after so many rows.
    emission : "auto", "gaussian", "text" or Emission, default "auto"
        "gaussian": numbers, with diagonal noise and means that take steps, both learned. "text":
        short texts, lists of words or counts of words, over any vocabulary. "auto": the first row
        shows which; a dict of numbers is Gaussian. Or an object of
        `streamddcrp.inference.tdpm_cvb`.
    alpha : float, optional
        Weight of a new component against the rows of an epoch. Default: learned from the births.
    decay : tuple, str, Decay or callable, default ("exponential", 1.0)
        Weight of the rows of the 1, 2, .. epochs before.
    width : int, default 3
        Epochs that count; a component that was silent for longer dies.
    lag : int, default 3
        Epochs before the last one that may still be revised.
    n_sweeps : int, default 4
        Over the window, at the end of an epoch.
    warmup : int, default 50
        Rows of numbers that wait until the scale of the noise is chosen by how well it predicts
        them: so many and the rest of their epoch, but no more than four times as many. Until then
        the label is 0 and there is no score.

    Notes
    -----
    An epoch of 2,000 rows with two features and 20 components takes about 25 ms, of 1,000 short
    texts 35 ms. Within an epoch, rows may come in any order; what is learned does not depend on
    how an epoch is cut into calls. A missing value is refused.

    Texts are cut into words as `streamddcrp.stream.tokenize` does. For other words hand over lists
    of them, such as scikit-learn makes:
    ``analyze = CountVectorizer(ngram_range=(1, 2)).build_analyzer()``, then
    ``model.learn_many([analyze(text) for text in texts], t)``. Frequent words need not be left out.

    Examples
    --------
    >>> import numpy as np
    >>> from streamddcrp import TemporalDPM
    >>> rng = np.random.default_rng(0)
    >>> model = TemporalDPM()
    >>> for day in range(8):
    ...     X = rng.normal(size=(40, 2))
    ...     X[:20] += [9.0, 0.5 * day]  # one cluster climbs, the other stays
    ...     out = model.step_many(X)
    >>> out["label"].to_pylist()[15:25]
    [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]
    >>> model.summary().select(["id", "born", "mean_1"]).to_pylist()
    [{'id': 0, 'born': 0, 'mean_1': 3.2}, {'id': 1, 'born': 0, 'mean_1': 0.0}]

    Texts:

    >>> news = TemporalDPM(epoch="1d")
    >>> news.learn_many(["oil price up", "oil price falls", "cup final tonight"], [0.0, 10.0, 20.0])
    >>> news.predict_one("oil price", 30.0) == news.predict_one("price of oil", 30.0)
    True
    """

    def __init__(
        self,
        *,
        epoch: Any = None,
        emission: Any = "auto",
        alpha: float | None = None,
        decay: Any = ("exponential", 1.0),
        width: int = 3,
        lag: int = 3,
        n_sweeps: int = 4,
        warmup: int = 50,
    ) -> None:
        self.epoch = epoch
        self.emission = emission
        self.alpha = alpha
        self.decay = decay
        self.width = width
        self.lag = lag
        self.n_sweeps = n_sweeps
        self.warmup = warmup
        self._cut = make_cut(epoch)
        check_whole("lag", lag, 0)
        check_whole("n_sweeps", n_sweeps, 1)
        check_whole("warmup", warmup, 1)
        if alpha is not None and (isinstance(alpha, bool) or not 0.0 < alpha < math.inf):
            message = f"alpha must be a positive number or None, got {alpha!r}"
            raise ConfigError(message)
        self._settings = Settings(
            alpha=float(alpha or 1.0),
            kappa=past_weights(decay, width),
            lag=lag,
            n_sweeps=n_sweeps,
            learn_alpha=alpha is None,
        )
        self._kind = _kind_of(emission)  # None until the first row shows it
        self._vectorizer = Vectorizer()
        self._evolving: Evolving | None = None
        self._waiting = _NOTHING
        self._place = Place()
        self._clocked: bool | None = None  # whether rows come with times
        self._n_seen = 0
        self._ahead: tuple[int, Evolving] | None = None  # a copy in which epochs have ended
        if self._kind is not None:
            self._evolving = self._begun(self._kind)

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {}
        yield {"epoch": ("rows", 20), "lag": 0, "warmup": 10}

    def _begun(self, kind: str) -> Evolving | None:
        """Return a model that need not wait for rows."""
        law = TextDecay() if isinstance(self.emission, str) else self.emission
        if kind == _TEXT:
            words = law.n_words
            return Evolving(Engine(self._settings, law), Vocabulary(), least_words=words)
        return None if isinstance(self.emission, str) else Evolving(Engine(self._settings, law))

    # -- learning --------------------------------------------------------------------------------

    def learn_one(self, x: Any, t: Any = None) -> None:
        """Learn one row.

        Parameters
        ----------
        x : mapping, str or list of str
            Feature name to number; or a text, its words, or counts of words.
        t : number or time stamp, optional
            Its time. Without times a row joins the open epoch, which `close` ends.

        Raises
        ------
        SchemaError
            A value is missing, not finite or no number. Nothing was learned.
        OrderError
            The epoch of ``t`` is closed. Nothing was learned.
        """
        times = None if t is None else np.array([as_time(t)])
        kind = self._kind or (_TEXT if is_text(x) else _GAUSSIAN)
        mark = self._vectorizer.mark()
        try:
            if kind == _TEXT:
                rows: Any = [read_document(x)]
            else:
                rows = self._vectorizer.transform(_mapping(x))[None].copy()
            self._advance(rows, times, kind)
        except StreamDDCRPError:
            self._vectorizer.rollback(mark)
            raise

    def learn_many(self, batch: object, t: object = None) -> None:
        """Learn a batch of rows, of one epoch or of many.

        Parameters
        ----------
        batch : Arrow table or batch, data frame, or array_like of shape (N, D)
            Texts: a list of documents, an Arrow array or a table with one column of texts; counts
            of words: a list of dicts, a table or a scipy sparse matrix.
        t : array_like of shape (N,), optional
            Without it, and unless epochs are numbers of rows, the batch is one epoch, which may be
            empty; an open one is closed before.

        Raises
        ------
        SchemaError, OrderError
            As for `learn_one`, with the row's number in ``row``. Nothing was learned.
        """
        self._learn_batch(batch, t)

    def step_many(self, batch: object, t: object = None) -> pa.RecordBatch:
        """Predict each row of a batch, then seat it, in one pass.

        Parameters
        ----------
        batch, t
            As for `learn_many`.

        Returns
        -------
        pyarrow.RecordBatch
            A row each with ``label`` (int64, the most probable component on arrival; a new one gets
            the next id), ``label_prob``, ``score`` (-log predictive density in nats), ``p_new``
            (probability of a new component), ``p_change`` (of one that is new to the epoch: of
            which the decayed past holds less than half a row), ``n_tables`` (int64, before the
            row). The floats are null in warm-up. Labels are revised until their epoch leaves the
            window: see `final_labels`.
        """
        return predictions(self._learn_batch(batch, t))

    def close(self) -> None:
        """End the open epoch now, or pass over an empty one where none is open.

        Rows of the same time or period that come later are refused.
        """
        self._move(self._place.next(period=self._cut.kind == "period"))

    def _learn_batch(self, batch: Any, t: object) -> FloatArray:
        kind = self._kind or (_TEXT if is_text(batch) else _GAUSSIAN)
        mark = self._vectorizer.mark()
        try:
            if isinstance(batch, list | tuple | np.ndarray) and len(batch) == 0:
                rows: Any = []
            elif kind == _TEXT:
                rows = read_documents(batch)
            else:
                if isinstance(batch, list | tuple) and isinstance(batch[0], Mapping):
                    message = (
                        "batch: a list of dicts is read as counts of words; choose emission='text' "
                        "if it is that, or hand numbers over as a table"
                    )
                    raise SchemaError(message)
                rows = read_batch(batch, self._vectorizer).X
            times = None if t is None else batch_times(t, len(rows))
            return self._advance(rows, times, kind, whole=True)
        except StreamDDCRPError:
            self._vectorizer.rollback(mark)
            raise

    def _advance(
        self, rows: Any, t: FloatArray | None, kind: str, *, whole: bool = False
    ) -> FloatArray:
        """Check rows and times, then learn them all; raises before anything has changed."""
        n, place = len(rows), self._place
        pieces: list[Piece] = []
        epoch = whole and t is None and self._cut.kind == "value"
        if n:
            check_clocked(self._clocked, t is not None)
            self._check(rows, kind)
        if epoch and not place.closed:
            place = place.next(period=False)
        if n:
            pieces, place = self._cut.pieces(place, t, n)
            if self._kind is None and self._evolving is None:
                self._evolving = self._begun(kind)
            self._kind, self._clocked = kind, t is not None
        out = np.empty((n, N_OUTPUTS))
        for piece in pieces:
            self._end_warmup(piece.number)
            out[piece.start : piece.stop] = self._take(rows[piece.start : piece.stop], piece)
        self._n_seen += n
        self._move(place.next(period=False) if epoch else place)
        return out

    def _take(self, rows: Any, piece: Piece) -> FloatArray:
        """Seat rows of one epoch, or let them wait until the scales can be chosen."""
        out = np.empty((len(rows), N_OUTPUTS))
        wait = 0
        if self._evolving is None:
            most = _MOST_WAIT * self.warmup
            wait = min(len(rows), most - len(self._waiting.X))
            self._waiting = self._waiting.and_then(rows[:wait], piece)
            out[:wait] = np.nan
            out[:wait, LABEL], out[:wait, LIVE_TABLES] = 0, 1
            if len(self._waiting.X) == most:
                self._evolving, self._waiting = self._found(), _NOTHING
        if self._evolving is not None and wait < len(rows):
            self._evolving.go_to(piece.number)
            out[wait:] = self._evolving.seat(rows[wait:], piece.time)
        return out

    def _end_warmup(self, number: int) -> None:
        """Let the rows wait no longer if there are enough and a later epoch begins."""
        if self._is_ripe(number):
            self._evolving, self._waiting = self._found(), _NOTHING

    def _is_ripe(self, number: int) -> bool:
        waiting = self._waiting.number
        return len(waiting) >= self.warmup and number > waiting[-1]

    def _found(self) -> Evolving:
        """Return the model, of several with different scales, that the rows surprised least."""
        rows, X = self._waiting, self._waiting.X
        laws = guesses(X) + [GaussianDrift.scaled(X, spread) for spread in _SPREADS]
        tried = [rows.taught(Evolving(Engine(self._settings, law))) for law in laws]
        best = int(np.argmin([surprise for _, surprise in tried]))
        model = tried[best][0]
        noise = np.array2string(model.engine.emission.noise, precision=3)
        _log.info("variance of the noise, by the first %d rows: %s", len(X), noise)
        return model

    def _move(self, place: Place) -> None:
        """Go to a place of the stream, closing what ends on the way."""
        self._end_warmup(place.number)
        if self._evolving is not None:
            self._evolving.go_to(place.number)
        self._place, self._ahead = place, None

    def _check(self, rows: Any, kind: str) -> None:
        """Refuse what the emission does not take."""
        law = self.emission
        if kind == _TEXT:
            if isinstance(law, LogisticNormalText) and self._evolving is not None:
                known: set[Any] = set(self._evolving.vocabulary.words)  # type: ignore[union-attr]
                for row, document in enumerate(rows):
                    known.update(word for word, _ in document)
                    if len(known) > law.n_words:
                        message = (
                            f"row {row}: more than {law.n_words} words, where the vocabulary of "
                            "the emission ends; make n_words larger, or choose emission='text'"
                        )
                        raise SchemaError(message, row=row)
            return
        names = self._vectorizer.columns or range(rows.shape[1])
        if isinstance(law, GaussianDrift) and rows.shape[1] != len(law.noise):
            message = f"batch: the emission has {len(law.noise)} columns, got {rows.shape[1]}"
            raise SchemaError(message)
        wrong = ~(np.abs(rows) <= _LARGEST)
        if wrong.any():
            row, d = (int(i) for i in np.unravel_index(int(wrong.argmax()), wrong.shape))
            value = rows[row, d]
            problem = (
                "is missing; drifting means take no missing values: fill it in or leave the row out"
                if np.isnan(value)
                else f"{value!r} is too large; rescale the column to less than {_LARGEST:g}"
            )
            message = f"row {row}, column {names[d]!r}: {problem}"
            raise SchemaError(message, row=row)

    # -- predicting ------------------------------------------------------------------------------

    def predict_one(self, x: Any, t: Any = None) -> int:
        """Return the id of the most probable component; the next id where that is a new one.

        ``t`` is its time. Where that is of a later epoch, those before it are taken to have ended,
        which costs as much as ending them, once. Default: the open epoch, or the next one.
        """
        predicted = self._predict(x, t)
        return 0 if predicted is None else int(predicted[0][LABEL])

    def predict_proba_one(self, x: Any, t: Any = None) -> dict[int, float]:
        """Return the probability of each component, and under -1 that of a new one."""
        predicted = self._predict(x, t)
        if predicted is None:
            return {0: 1.0} if self._n_seen else {-1: 1.0}
        return predicted[1]

    def score_one(self, x: Any, t: Any = None) -> float:
        """Return -log predictive density (nats): high is surprising. NaN in warm-up."""
        predicted = self._predict(x, t)
        return math.nan if predicted is None else float(predicted[0][SCORE])

    def _predict(self, x: Any, t: Any) -> tuple[FloatArray, dict[int, float]] | None:
        """Predict a row; None in warm-up. Changes nothing."""
        time = None if t is None else np.array([as_time(t)])
        kind = self._kind or (_TEXT if is_text(x) else _GAUSSIAN)
        row: Any
        if kind == _TEXT:
            row = read_document(x)
        else:
            row = self._vectorizer.transform(_mapping(x), learn=False).copy()
        model = self._evolving
        if model is None and not len(self._waiting.X):
            return None
        self._check([row] if kind == _TEXT else row[None], kind)
        number = self._place.number
        if time is not None:
            check_clocked(self._clocked, time is not None)
            number = self._cut.pieces(self._place, time, 1)[0][0].number
        elif self._cut.kind == "rows":
            number = self._cut.pieces(self._place, None, 1)[0][0].number
        if model is None and not self._is_ripe(number):
            return None
        if model is None or number != model.number:
            if self._ahead is None or self._ahead[0] != number:
                self._ahead = number, (model or self._found()).ahead(number)
            model = self._ahead[1]
        return model.peek(row)

    # -- looking at the model --------------------------------------------------------------------

    @property
    def n_seen(self) -> int:
        """Number of rows learned."""
        return self._n_seen

    @property
    def needs_times(self) -> bool:
        """Whether epochs are told by times, or else by calls: not by numbers of rows."""
        return self._cut.kind != "rows"

    @property
    def n_epochs(self) -> int:
        """Number of epochs that have ended, empty ones included."""
        return self._place.number

    @property
    def n_tables(self) -> int:
        """Number of live components."""
        return 0 if self._evolving is None else int(self._evolving.n_components)

    @property
    def nbytes(self) -> int:
        """Bytes that the arrays of the model take in memory, about, as `Keyed` counts them."""
        arrays, meta = self._state()
        words: int = sum(120 + len(str(word)) for word in (meta["model"] or {}).get("words") or ())
        return words + sum(int(array.nbytes) for array in arrays.values())

    @property
    def objective(self) -> float:
        """Objective that the sweeps climb, summed over all epochs; NaN in warm-up.

        A monitor in nats, not a bound: see `streamddcrp.inference.tdpm_cvb.objective`. An epoch
        that leaves the window takes along what the objective of the window loses by it; rows of
        the open epoch count by their log predictive density.
        """
        if self._evolving is None:
            return math.nan if self._n_seen else 0.0
        return self._evolving.objective

    def events(self) -> list[Event]:
        """Return what happened to components since the last call, at most the last 256.

        Births, deaths, merges and splits are told when they can no longer be revised: when their
        epoch has left the window, ``lag`` epochs later. ``index`` and ``t`` are the number (from
        0) and the time of the epoch; a death has the last epoch with half a row, though it is
        known only after ``width`` silent ones.
        """
        model = self._evolving
        if model is None:
            return []
        told = list(model.events)
        lost = model.n_events - len(told)
        if lost > 0:
            _log.warning("%d events were overwritten; call events() more often", lost)
        model.events.clear()
        model.n_events = 0
        return told

    def final_labels(self, *, window: bool = False) -> pa.Table:
        """Return the labels of rows whose epoch has left the window since the last call.

        At most the last 100,000 rows are kept for a call.

        Parameters
        ----------
        window : bool, default False
            Append the labels of the rows of the window and of the open epoch as they stand: at the
            end of a stream these are all there will be. They do not count as told. Rows of a
            warm-up are labelled as if it ended here.

        Returns
        -------
        pyarrow.Table
            Columns ``row`` (arrival index), ``epoch``, ``label``, all int64.
        """
        model = self._evolving
        if window and model is None and len(self._waiting.X):
            model = self._found()
        return final_labels(model, window=window)

    def summary(self) -> pa.Table:
        """Return one row a live component: id, size, born, last seen, and how it looks.

        ``size`` is the expected number of rows, ``born`` and ``last_seen`` are numbers of epochs.
        Numbers: ``mean_x`` now and its standard error ``sd_x`` for each feature; texts: ``words``
        that tell it from the others.
        """
        if self._evolving is None:
            return no_tables()
        return components(self._evolving, self._feature_names())

    def trajectories(self) -> pa.Table:
        """Return one row an epoch and component with at least half a row.

        Returns
        -------
        pyarrow.Table
            ``epoch``, its time ``t``, ``id``, ``mass`` (expected rows), then ``mean_x`` and
            ``sd_x`` for each feature, or ``words``. Of the last 1,000 epochs; those of the window
            as they stand.
        """
        return trajectories(self._evolving, self._feature_names())

    def plot(self, ax: Any = None, *, rows: object = None, t: object = None) -> Any:
        """Draw the components over time; return the axes.

        Texts: the stream of their masses, the largest with their words. Numbers: the track of the
        mean of each component with a band of two standard deviations of its rows, a panel for each
        of the six features that tell most. Triangles mark births, crosses deaths, diamonds what
        another component joined.

        Parameters
        ----------
        ax : matplotlib axes, or a sequence of as many as there are panels, optional
        rows : batch as for `learn_many`, optional
            Rows of numbers to draw as points behind the tracks.
        t : array_like of shape (N,), optional
            Their times; without them they are spread evenly over the epochs.

        Raises
        ------
        MissingExtraError
            If matplotlib is not installed.
        """
        from streamddcrp.estimators.epoch_pictures import draw  # noqa: PLC0415  # heavy, optional

        spoken = isinstance(self.epoch, str) and self._cut.kind == "period"
        behind = None
        if rows is not None:
            X = read_batch(rows, self._vectorizer, learn=False).X
            behind = X, None if t is None else batch_times(t, len(X))
        return draw(self._evolving, self._feature_names(), spoken, behind, ax)

    def _feature_names(self) -> list[str]:
        return [str(name) for name in self._vectorizer.columns or ()]

    # -- checkpoints -----------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """Return the whole model as one checksummed blob; `from_bytes` continues bit for bit."""
        return encode_state(_MODEL_ID, _VERSION, *self._state())

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        waiting = self._waiting
        arrays: dict[str, Any] = {
            "waiting.x": waiting.X, "waiting.number": waiting.number, "waiting.t": waiting.t,
        }  # fmt: skip
        law = self.emission
        options = {
            name: to_json(value) for name, value in self._get_params().items() if value is not law
        }
        options["emission"] = law if isinstance(law, str) else emission_to_json(law)
        meta: dict[str, Any] = {
            "options": options,
            "vectorizer": self._vectorizer.to_config(),
            "kind": self._kind,
            "place": asdict(self._place),
            "clocked": self._clocked,
            "n_seen": self._n_seen,
            "model": None,
        }
        if self._evolving is not None:
            more, meta["model"] = to_state(self._evolving)
            arrays |= {f"model.{name}": array for name, array in more.items()}
        return arrays, meta

    @classmethod
    def from_bytes(cls, blob: bytes) -> Self:
        """Restore a model from `to_bytes`.

        Raises
        ------
        CheckpointError
            If the blob is damaged, of another model or of a newer version.
        """
        arrays, meta = decode_state(blob, _MODEL_ID)
        try:
            options = dict(meta["options"])
            law = options.pop("emission")
            model = cls(
                emission=law if isinstance(law, str) else emission_from_json(law),
                **{name: from_json(value) for name, value in options.items()},
            )
            model._restore(arrays, meta)
        except (LookupError, TypeError, ValueError) as error:
            message = f"the state does not fit this release: {error}"
            raise CheckpointError(message) from error
        return model

    def _restore(self, arrays: dict[str, Any], meta: dict[str, Any]) -> None:
        self._vectorizer = Vectorizer.from_config(meta["vectorizer"])
        for name in ("kind", "clocked", "n_seen"):
            setattr(self, f"_{name}", meta[name])
        self._place = replace(Place(), **meta["place"])
        self._waiting = Waiting(*(arrays[f"waiting.{name}"] for name in ("x", "number", "t")))
        self._evolving = None
        if meta["model"] is not None:
            prefix = "model."
            own = {k[len(prefix) :]: v for k, v in arrays.items() if k.startswith(prefix)}
            self._evolving = from_state(own, meta["model"])


def _kind_of(emission: Any) -> str | None:
    """Return what rows an emission takes; None if they must show it."""
    if isinstance(emission, str) and emission in ("auto", _TEXT, _GAUSSIAN):
        return None if emission == "auto" else emission
    if isinstance(emission, GaussianDrift):
        return _GAUSSIAN
    if isinstance(emission, tuple(EMISSIONS.values())):
        return _TEXT
    message = (
        f"emission must be 'auto', 'gaussian', 'text' or one of {', '.join(EMISSIONS)}, "
        f"got {emission!r}"
    )
    raise ConfigError(message)


def _mapping(x: Any) -> Mapping[Any, Any]:
    if isinstance(x, Mapping):
        return x
    message = f"expected a dict of features, got {x!r}; texts need emission='text' from the start"
    raise SchemaError(message)
