"""Moves that change the number of components, each judged by the objective of the window.

docs/math/temporal.md (9), (15). A component that was born inside the window has no frozen past, so
the effect of a change on the objective is known exactly. The number of ways to name components
counts with the probability that a component is occupied, or empty ones would be worth seven nats.
"""

import math
import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamddcrp.models.temporal.emissions import each, pick
from streamddcrp.models.temporal.kernels.counts import MEAN, add_shares
from streamddcrp.models.temporal.window import Terms, Window
from streamddcrp.typing import FloatArray, IntArray

BoolArray = NDArray[np.bool_]

_FEW = 3.0  # expected rows in the window below which a young component may be deleted
_MANY = 6.0  # expected rows in the window from which a component may be split
_PAIRS = 10_000  # judged at once, to bound memory


def move(window: Window) -> bool:
    """Merge, delete and split if the objective rises; return whether anything changed."""
    changed = _merge(window)
    changed |= _delete(window)
    return changed | _split(window)


def _sum(terms: Terms) -> FloatArray:
    return terms.counts + terms.entropy


def _merge(window: Window) -> bool:
    """Merge young components into others, best first, each once per evaluation of its pairs."""
    changed = False
    fresh = np.ones(window.n_components, dtype=bool)
    while window.n_components > 1:
        begins, smoothed = window.begins, window.smooth()
        a, b = window.emission.near(smoothed, begins)
        # the older one survives; the other must be young
        swap = window.born[a] > window.born[b]
        a, b = np.where(swap, b, a), np.where(swap, a, b)
        open_ = (begins[b] >= 0) & (fresh[a] | fresh[b])
        a, b = a[open_], b[open_]
        if not len(a):
            return changed
        stats, terms = window.stats(window.resp), window.terms(window.resp, window.before)
        parts = [slice(i, i + _PAIRS) for i in range(0, len(a), _PAIRS)]
        unions = [_unions(window, smoothed, stats, terms, a[some], b[some]) for some in parts]
        gain = np.concatenate(unions)
        merged: list[int] = []
        busy = np.zeros(window.n_components, dtype=bool)
        for pair in np.argsort(-gain, kind="stable"):
            into, gone = int(a[pair]), int(b[pair])
            if gain[pair] <= 0.0 or busy[into] or busy[gone]:
                continue
            busy[into] = busy[gone] = True
            for q in window.resp:
                q[:, into] = np.minimum(q[:, into] + q[:, gone], 1.0)
            window.record("merge", window.ids[gone], window.ids[into])
            merged.append(gone)
        if not merged:
            return changed
        window.drop(merged)
        fresh, changed = np.delete(busy, merged), True
    return changed


def _unions(
    window: Window, smoothed: Any, stats: Any, terms: Terms, a: IntArray, b: IntArray
) -> FloatArray:
    both = each(operator.add, pick(stats, a), pick(stats, b))
    joint = window.emission.smooth(both, pick(window.starts, a, 0), window.begins[a])
    log_z = smoothed.log_z.sum(axis=0)
    occupied = 1.0 - np.exp(np.maximum(terms.log_zero[a], terms.log_zero[b]))
    unused = max(window.settings.slots - window.n_components + 1, 1)
    gain = joint.log_z.sum(axis=0) - log_z[a] - log_z[b] - occupied * math.log(unused)
    gain += _sum(window.merged_terms(a, b)) - _sum(terms)[a] - _sum(terms)[b]
    return np.asarray(gain)


def _delete(window: Window) -> bool:
    """Share the rows of tiny young components among the others.

    All are judged by the state at the beginning of a round. A tiny one that received rows from
    another is not judged in that round, and a deleted one receives none.
    """
    mass = sum(q.sum(axis=0) for q in window.resp)
    waiting = window.ids[(window.begins >= 0) & (mass < _FEW)]
    changed = False
    while len(waiting) and window.n_components > 1:
        tiny = np.flatnonzero(np.isin(window.ids, waiting))
        now = _Now(window, tiny)
        busy, left = np.zeros((2, window.n_components), dtype=bool)
        gone, later = [], []
        for k in tiny:
            verdict = None if busy[k] else _delete_one(window, now, int(k), busy, left)
            if verdict is None:
                later.append(window.ids[k])
            elif verdict:
                window.record("death", window.ids[k])
                gone.append(int(k))
        if not gone:
            return changed
        window.drop(gone)
        waiting, changed = np.array(later, dtype=np.int64), True
    return changed


class _Now:
    """The present window for judging several changes; moments and terms follow the changes.

    ``scores`` determine how the rows ``some`` of each epoch, those of tiny components, would be
    shared among all.
    """

    def __init__(self, window: Window, tiny: IntArray) -> None:
        self.moments = window.moments(window.resp)
        self.entropy = window.entropy(window.resp)
        self.terms = window.terms_of(self.moments, window.before, self.entropy)
        self.begins = window.begins
        self.stats = window.stats(window.resp)
        self.smoothed = window.emission.smooth(self.stats, window.starts, self.begins)
        past = window.decayed(self.moments, window.before)[:-1]
        weight = np.log(window.settings.a0 + (self.moments + past)[:, :, MEAN])
        self.some = [np.flatnonzero(q[:, tiny].any(axis=1)) for q in window.resp]
        self.scores = []
        for e, i in enumerate(self.some):
            X, q = window.rows[e][i], window.resp[e][i]
            expected = window.emission.expected(X, self.smoothed, e, self.begins, q)
            self.scores.append(expected + weight[e])


def _delete_one(window: Window, now: _Now, k: int, busy: BoolArray, left: BoolArray) -> bool | None:
    """Share the rows of ``k`` among the others if that pays; None: not judged in this round.

    Only ``k`` changes, which has ``left`` from then on, and those who take its rows: ``busy``.
    """
    unused = max(window.settings.slots - window.n_components + 1, 1)
    alone = now.terms.counts[k] + (1.0 - math.exp(now.terms.log_zero[k])) * math.log(unused)
    rows, shares = [], []
    for q, known, scores in zip(window.resp, now.some, now.scores, strict=True):
        some = np.flatnonzero(q[:, k])
        p = scores[np.searchsorted(known, some)]
        p[:, k] = -np.inf
        top = p.max(axis=1, keepdims=True)
        if (top == -np.inf).any():
            return False  # no other component is as old as these rows
        p = np.exp(p - top)
        p[p < window.emission.least] = 0.0
        rows.append(some)
        shares.append(q[some, k][:, None] * p / p.sum(axis=1, keepdims=True))
    takers = np.flatnonzero(sum(share.sum(axis=0) for share in shares))
    if left[takers].any():
        return None
    shares = [share[:, takers] for share in shares]
    moved = [X[some] for X, some in zip(window.rows, rows, strict=True)]
    gains = window.emission.stats_of_epochs(moved, shares)
    stats = each(operator.add, pick(now.stats, takers), gains)
    after = window.emission.smooth(stats, pick(window.starts, takers, 0), now.begins[takers])
    touched = np.append(takers, k)
    evidence = after.log_z.sum() - now.smoothed.log_z[:, touched].sum()
    moments, entropy = now.moments[:, takers], now.entropy[takers]
    for q, some, share, part in zip(window.resp, rows, shares, moments, strict=True):
        add_shares(q, some, takers, share, part, entropy)
    new = window.terms_of(moments, window.before[:, takers], entropy)
    if evidence + _sum(new).sum() - _sum(now.terms)[takers].sum() - now.terms.entropy[k] <= alone:
        return False
    for q, some, share in zip(window.resp, rows, shares, strict=True):
        q[np.ix_(some, takers)] += share
        q[some, k] = 0.0
    now.moments[:, takers], now.entropy[takers] = moments, entropy
    for old, term in zip(now.terms, new, strict=True):
        old[takers] = term
    busy[takers] = left[k] = True
    return True


def _split(window: Window) -> bool:
    """Split components if the objective rises, along the direction in which rows differ."""
    changed = False
    mixed = window.emission.mixed(window.rows, window.resp, window.starts, _MANY)
    stats = window.stats(window.resp) if len(mixed) else None
    for k in mixed.tolist():
        where = [np.flatnonzero(q[:, k]) for q in window.resp]
        rows = [X[some] for X, some in zip(window.rows, where, strict=True)]
        own = [q[some, k][:, None] for q, some in zip(window.resp, where, strict=True)]
        part = rows, where, own, pick(stats, np.array([k]))
        changed |= any(_split_at(window, k, part, e) for e in sorted({0, len(window.rows) - 1}))
    return changed


def _split_at(window: Window, k: int, part: tuple[Any, ...], epoch: int) -> bool:
    """Try a component that takes part of the rows of ``k`` from an epoch of the window on.

    ``part``: the rows of ``k``, their places, its share (N, 1) of each, and its statistics.
    """
    rows, where, own, stats = part
    begins = max(int(window.born[k]) - window.first, -1)
    if begins > epoch or window.n_components >= window.settings.slots:
        return False
    emission, settings = window.emission, window.settings
    starts, before = pick(window.starts, np.array([k]), 0), window.before[:, [k]]
    alone = emission.smooth(stats, starts, np.array([begins]))
    sides = emission.halves(rows, own, 0, alone, epoch)
    if sides is None:
        return False
    both = np.array([begins, epoch])
    starts = each(lambda *pair: np.concatenate(pair), starts, emission.no_starts(1))
    before_both = np.concatenate([before, np.zeros_like(before)], axis=1)
    past = settings.a0, np.array(settings.past_weights), before_both[:, :, MEAN].copy()
    shared, smoothed = emission.split(rows, own, sides, past, starts, both)
    if sum(q[:, 1].sum() for q in shared) <= 1.0:
        return False
    new, old = window.terms(shared, before_both), window.terms(own, before)
    gain = smoothed.log_z.sum() - alone.log_z.sum() + _sum(new).sum() - _sum(old).sum()
    unused = settings.slots - window.n_components
    gain += (1.0 - math.exp(new.log_zero[1])) * math.log(unused)
    if gain <= settings.split_margin:
        return False
    window.open(1, "split", window.first + epoch, int(window.ids[k]))
    for q, some, parts in zip(window.resp, where, shared, strict=True):
        q[some, k], q[some, -1] = parts[:, 0], parts[:, 1]
    return True
