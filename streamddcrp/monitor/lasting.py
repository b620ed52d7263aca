"""Evidence in the last rows together that columns no longer move as they usually did.

The surprise of a row says little of a change that each row shows a little, or that makes a column
too quiet: derivation in ``docs/math/lasting_changes.md``.
"""

import math
from collections.abc import Mapping
from copy import copy
from typing import Annotated, Any, NamedTuple

import numpy as np

from streamddcrp.compilation import entry
from streamddcrp.estimator.reasons import Explanation
from streamddcrp.records import FINITE, VALUE, WEIGHT, Within, check, check_one, empty, refuse_if
from streamddcrp.typing import FloatArray, IntArray

ROWS = 1000  # last rows, from which is learned what is usual
LEAST = 64  # rows beyond twice the columns, from which it can be learned
WIDEST = 256  # columns; of wider rows only the surprise counts
SHORT, LONG = 5, 20  # rows over which squares are averaged
FAR = 10.0  # deviations; of values further off, the next forecasts make no more
MOST = 100.0  # of a square in the evidence
KEPT = 1e6  # of a square that is stored; reasons do without the limit above
RIDGE = 0.01  # of a column's variance, added before dividing
TAIL = 0.99, 3.32  # a quantile, of half a chi-square with one degree of freedom
_TINY = 1e-9
_PLACES = 4  # marginal and conditional innovations over few rows, then over many


class _Usual(NamedTuple):
    """What is usual of D columns, and how they moved lately."""

    center: Annotated[FloatArray, "D", FINITE]
    scale: Annotated[FloatArray, "D", 1.0, WEIGHT]
    slopes: Annotated[FloatArray, "D D", FINITE]  # of a column on all of the row before
    noise: Annotated[FloatArray, "D", 1.0, WEIGHT]  # of innovations
    precision: Annotated[FloatArray, "D D", FINITE]  # turns them into conditional ones
    # of each column, and of the mean of all:
    mean: Annotated[FloatArray, f"{_PLACES} E", 1.0, WEIGHT]  # of averaged squares
    unit: Annotated[FloatArray, f"{_PLACES} E", 1.0, WEIGHT]  # of evidence
    limit: Annotated[FloatArray, "1", WEIGHT]  # the largest of it, in 99 of 100 rows
    recent: Annotated[FloatArray, f"2 {LONG} E", 1.0, WEIGHT]  # squares of the last rows
    turn: Annotated[IntArray, "1", Within(0, LONG - 1)]  # place of the next row among them
    square: Annotated[FloatArray, f"{_PLACES} E", 1.0, WEIGHT]  # their averages
    last: Annotated[FloatArray, "D", FINITE]  # the last row


_MOVING = "recent", "turn", "square", "last"


class Lasting:
    """The last rows, and since `settle` the evidence that later ones are unlike those before it.

    O(D^2) a row, 10 microseconds with 40 columns; memory O(D^2) and `ROWS` rows.
    """

    def __init__(self) -> None:
        self._rows: list[FloatArray] = []
        self._n = 0
        self._usual: _Usual | None = None  # None: not settled, or too few or too wide rows

    def copy(self) -> "Lasting":
        """Return an independent copy."""
        other = copy(self)
        other._rows = self._rows.copy()
        return other

    def settle(self) -> None:
        """Take the last rows as usual."""
        self._usual = _learned(np.concatenate(self._rows)[-ROWS:]) if self._rows else None

    def step(self, X: FloatArray) -> FloatArray:
        """Learn rows (N, D); return the evidence (N,) after each, in nats; 0 before `settle`."""
        self._usual, out = self._after(X)
        if X.shape[1] <= WIDEST:
            self._rows.append(X.copy())
            self._n += len(X)
            while self._n - len(self._rows[0]) >= ROWS:
                self._n -= len(self._rows.pop(0))
        return out

    def ahead(self, x: FloatArray) -> float:
        """Return the evidence after a row (D,); learn nothing."""
        return float(self._after(x[None])[1][0])

    def _after(self, X: FloatArray) -> tuple[_Usual | None, FloatArray]:
        usual, out = self._usual, np.zeros(len(X))
        if usual is not None:
            usual = usual._replace(**{name: getattr(usual, name).copy() for name in _MOVING})
            follow(usual, np.ascontiguousarray(X), np.empty((2, X.shape[1])), out)
        return usual, out

    def words(self, names: list[str], X: FloatArray, told: Explanation) -> str:
        """Say why an alarm begins after rows X (N, D), with a row explained as ``told``.

        First come at most three columns that moved otherwise than usual in X, if that told more
        than the row does. After the first column comes the one that it follows. Learns nothing.
        """
        usual, _ = self._after(X)
        if usual is None:
            return told.why
        least = told.parts[0].excess if told.parts else 0.0
        evidence, ratio = _by_column(usual)
        worst = np.argsort(-evidence, kind="stable")[:3].tolist()
        said = [
            f"{names[d]} {math.sqrt(ratio[d]):.2g} times as far from its forecasts as usual, by "
            f"the last {LONG} rows"
            for d in worst
            if evidence[d] > max(least, 0.25 * evidence[worst[0]])
        ]
        row = told._main
        said += map(str, row)
        if said:
            first = worst[0] if len(said) > len(row) else names.index(row[0].name)
            leader = _leader(usual, first)
            if leader >= 0:
                said.insert(1, f"{names[leader]} ({names[first]} follows it)")
        return "; ".join(said)

    # -- checkpoints -----------------------------------------------------------------------------

    def arrays(self) -> dict[str, Any]:
        """Return arrays for a checkpoint."""
        arrays: dict[str, Any] = {}
        if self._rows:
            arrays["lasting.rows"] = np.concatenate(self._rows)[-ROWS:]
        if self._usual is not None:
            arrays |= {f"lasting.{n}": x.copy() for n, x in self._usual._asdict().items()}
        return arrays

    def restore(self, arrays: Mapping[str, Any], n_columns: int) -> None:
        """Take up what `arrays` returned; raises CheckpointError."""
        start = "lasting."
        parts = {n.removeprefix(start): x for n, x in arrays.items() if n.startswith(start)}
        rows = parts.pop("rows", None)
        if rows is not None:
            refuse_if(rows.ndim != 2 or not 0 < len(rows) <= ROWS, "lasting")
            check_one("lasting.rows", rows, (len(rows), n_columns), np.float64, VALUE)
            self._rows, self._n = [rows.copy()], len(rows)
        if parts:
            check(_Usual, parts, _lengths(n_columns))
            usual = _Usual(**{name: parts[name].copy() for name in _Usual._fields})
            divisors = usual.scale, usual.noise, usual.mean, usual.unit
            refuse_if(not all((x > 0.0).all() for x in divisors), "lasting")
            self._usual = usual


def _lengths(n_columns: int) -> dict[str, int]:
    return {"D": n_columns, "E": n_columns + 1}


def _learned(X: FloatArray) -> _Usual | None:
    """Return what is usual in rows (N, D), or None if they are too few or too wide."""
    N, D = X.shape
    if N < LEAST + 2 * D or D > WIDEST:
        return None
    known = np.isfinite(X)
    n = np.maximum(known.sum(axis=0), 1)
    usual = empty(_Usual, _lengths(D))
    usual.center[:] = np.where(known, X, 0.0).sum(axis=0) / n
    Z = np.where(known, X - usual.center, 0.0)
    least = _TINY * np.abs(np.where(known, X, 0.0)).max(axis=0) + 1e-290
    usual.scale[:] = np.maximum(np.sqrt((Z**2).sum(axis=0) / n), least)
    Z /= usual.scale
    before, now = np.clip(Z[:-1], -FAR, FAR), Z[1:]
    ridge = RIDGE * np.eye(D)
    usual.slopes[:] = np.linalg.solve(before.T @ before / N + ridge, before.T @ now / N).T
    E = np.where(known[1:], now - before @ usual.slopes.T, 0.0)
    usual.noise[:] = np.maximum(np.sqrt((E**2).mean(axis=0)), _TINY)
    W = E / usual.noise
    P = np.linalg.inv(W.T @ W / N + RIDGE**2 * np.eye(D))
    P /= np.maximum(np.sqrt(((W @ P) ** 2).mean(axis=0)), _TINY)
    usual.precision[:] = P.T
    path, work, one = np.empty((N, _PLACES, D + 1)), np.empty((2, D)), np.zeros(1)
    for i, row in enumerate(X):
        follow(usual, row[None], work, one)
        path[i] = usual.square
    path = path[LONG:]
    usual.mean[:] = np.maximum(path.mean(axis=0), 1e-3)
    most = np.zeros(len(path))
    for place in range(_PLACES):
        rows = SHORT if place < 2 else LONG
        told = _evidence(path[:, place] / usual.mean[place], np.append(np.full(D, rows), rows * D))
        tail = np.quantile(told, TAIL[0], axis=0) / TAIL[1]
        usual.unit[place] = np.maximum(np.maximum(2.0 * told.mean(axis=0), tail), 0.1)
        most = np.maximum(most, (told / usual.unit[place]).max(axis=1))
    usual.limit[0] = np.quantile(most, TAIL[0])
    for kind, fitted in enumerate((D, 2 * D)):  # of later rows squares are larger
        usual.mean[kind::2] *= (N + fitted) / max(N - fitted, LEAST)
    return usual


def _by_column(usual: _Usual) -> tuple[FloatArray, FloatArray]:
    """Return each column's evidence (D,) of squares without a limit, and their ratio to usual."""
    D, last = len(usual.last), usual.turn[0] - 1 - np.arange(LONG)
    recent = usual.recent[:, last % LONG, :D]
    square = np.concatenate([recent[:, :SHORT].mean(axis=1), recent.mean(axis=1)])
    ratio = square / usual.mean[:, :D]
    told = _evidence(ratio, np.repeat([SHORT, LONG], 2)[:, None]) / usual.unit[:, :D]
    best = told.argmax(axis=0), np.arange(D)
    return told[best], ratio[best]


def _leader(usual: _Usual, d: int) -> int:
    """Return the column whose last innovation moves column d more than its own does, or -1."""
    moves = np.abs(usual.slopes[d]) * usual.noise
    moves[d] = 0.0
    most = int(np.argmax(moves))
    return most if moves[most] > usual.noise[d] else -1


def _evidence(ratio: Any, rows: Any) -> Any:
    """Return the log likelihood ratio of a variance that is ``ratio`` times the usual one."""
    v = (rows * ratio + 1.0) / (rows + 1.0)
    return 0.5 * rows * (v - 1.0 - np.log(v))


@entry
def follow(usual, X, work, out):  # type: ignore[no-untyped-def]
    """Follow rows X (N, D); ``out`` (N,) is the largest evidence of a column after each."""
    D = len(usual.last)
    z, e = work[0], work[1]
    for i in range(X.shape[0]):
        for d in range(D):
            ahead = 0.0
            for k in range(D):
                ahead += usual.slopes[d, k] * usual.last[k]
            z[d], e[d] = ahead, 0.0
            if not math.isnan(X[i, d]):
                z[d] = min(max((X[i, d] - usual.center[d]) / usual.scale[d], -1e6), 1e6)
                e[d] = (z[d] - ahead) / usual.noise[d]
        for d in range(D):
            usual.last[d] = min(max(z[d], -FAR), FAR)
            if math.isnan(X[i, d]):
                for kind in range(2):
                    usual.recent[kind, usual.turn[0], d] = usual.mean[2 + kind, d]
                continue
            given = 0.0
            for k in range(D):
                given += usual.precision[d, k] * e[k]
            usual.recent[0, usual.turn[0], d] = min(e[d] * e[d], KEPT)
            usual.recent[1, usual.turn[0], d] = min(given * given, KEPT)
        _average(usual)
        out[i] = max(_largest(usual, D) - usual.limit[0], 0.0)


@entry
def _average(usual):  # type: ignore[no-untyped-def]
    D = len(usual.last)
    for kind in range(2):
        usual.recent[kind, usual.turn[0], D] = 0.0
        for d in range(D):
            usual.recent[kind, usual.turn[0], D] += (
                min(usual.recent[kind, usual.turn[0], d], MOST) / D
            )
    usual.turn[0] = (usual.turn[0] + 1) % LONG
    for kind in range(2):
        for d in range(D + 1):
            total = 0.0
            for back in range(1, LONG + 1):
                total += min(usual.recent[kind, (usual.turn[0] + LONG - back) % LONG, d], MOST)
                if back == SHORT:
                    usual.square[kind, d] = total / SHORT
            usual.square[2 + kind, d] = total / LONG


@entry
def _largest(usual, D):  # type: ignore[no-untyped-def]
    best = 0.0
    for d in range(D + 1):
        for place in range(_PLACES):
            rows = (SHORT if place < 2 else LONG) * (D if d == D else 1)
            share = usual.square[place, d] / usual.mean[place, d]
            v = (rows * share + 1.0) / (rows + 1.0)
            told = 0.5 * rows * (v - 1.0 - math.log(v)) / usual.unit[place, d]
            best = max(best, told)
    return best
