"""Everything the filter has to remember: particles, the last rows, the names of features.

Sizes: P particles, K slots of a particle (grows), H = 2 r + 1 rows of owners, D features of a row,
G names. Kernels update the arrays in place. Nothing depends on the length of the stream.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamddcrp.likelihoods.linear_gaussian import LinearGaussian
from streamddcrp.models.features.config import Config
from streamddcrp.models.features.kernels.layout import (
    MOST_ENUMERATED,
    MOST_NEW,
    N_ACTIVE,
    N_COUNTS,
    N_SUMS,
    SHAPE,
)
from streamddcrp.typing import FloatArray, IntArray

BoolArray = NDArray[np.bool_]
WordArray = NDArray[np.uint64]
N_NAMES = 96
N_NOTED = 128  # births and deaths that are kept
N_SLOTS = 8  # to begin with
N_HISTORY, N_ON = 1024, 12  # rows whose features are remembered, and how many of each


class Particles(NamedTuple):
    """Particles; the first ``counts[N_ACTIVE]`` of them count.

    Attributes
    ----------
    weight : ndarray of float64, shape (P,)
        Sums to 1.
    rate : ndarray of float64, shape (P,)
        Of the noise variance's inverse gamma, or the variance itself where it is known.
    past : ndarray of uint64, shape (P,)
        Hash of features that are dead.
    owners : ndarray of uint64, shape (P, H)
        Features of row u as bits, at u mod H.
    n_owners : ndarray of int64, shape (P, K)
        Owners among the last r rows; 0: the slot is free.
    first : ndarray of int64, shape (P, K)
        First owner.
    scale : ndarray of int64, shape (P, K)
        Which of the ratios of noise to loading variance a feature has.
    name : ndarray of int64, shape (P, K)
        Position in `Names`, -1 for none.
    hash : ndarray of uint64, shape (P, K)
        Sum of the hashes of all owners.
    cov : ndarray of float64, shape (P, K, K)
    mean : ndarray of float64, shape (P, K, D)
        Posterior of the loadings.
    """

    weight: FloatArray
    rate: FloatArray
    past: WordArray
    owners: WordArray
    n_owners: IntArray
    first: IntArray
    scale: IntArray
    name: IntArray
    hash: WordArray
    cov: FloatArray
    mean: FloatArray


class Rows(NamedTuple):
    """The last r rows (row u at u mod r) and whether each came without gaps."""

    x: FloatArray
    whole: BoolArray


class Names(NamedTuple):
    """Features that particles have in common, and what happened to them.

    ``label`` is the public id of one that is or was live, else -1; ``weight`` that of the particles
    which have it, the heaviest of them ``holder``, in slot ``slot``; ``owners`` the rows of the
    window, as bits, that have it there; ``loading`` what it looks like there. ``history`` has the
    ids (-1 behind the last) that row u had when it left the window, at u mod 1024.
    """

    used: BoolArray
    label: IntArray
    weight: FloatArray
    best: FloatArray
    holder: IntArray
    slot: IntArray
    born: IntArray
    owners: WordArray
    loading: FloatArray
    event_kind: IntArray
    event_label: IntArray
    event_index: IntArray
    event_into: IntArray
    event_time: FloatArray
    event_born: IntArray
    event_loading: FloatArray
    share: FloatArray
    history: IntArray


class Work(NamedTuple):
    """Work space."""

    residual: FloatArray
    masked: FloatArray
    filled: FloatArray
    seen: FloatArray
    e: FloatArray
    v: FloatArray
    pull: FloatArray
    link: FloatArray
    odds: FloatArray
    lean: FloatArray
    gram: FloatArray
    spread: FloatArray
    chosen: IntArray
    slots: IntArray
    all: IntArray
    on: IntArray
    own: IntArray
    forced: IntArray
    free: IntArray
    place_of: IntArray
    log_new: FloatArray
    extra: FloatArray
    scale: IntArray
    redrawn: IntArray
    subset: WordArray
    log_weight: FloatArray
    weight: FloatArray
    few: IntArray
    few_weight: FloatArray
    total: FloatArray
    marginal: FloatArray
    increment: FloatArray
    pool_parent: IntArray
    pool_mask: WordArray
    pool_new: IntArray
    pool_weight: FloatArray
    pool_key: WordArray
    table: IntArray
    child: IntArray
    child_weight: FloatArray
    ancestor: IntArray
    place: IntArray
    used: BoolArray
    column: WordArray
    like: FloatArray


@dataclass(slots=True)
class State:
    """The filter's state; `counts` and `sums` are laid out in `kernels.layout`."""

    particles: Particles
    rows: Rows
    names: Names
    counts: IntArray
    sums: FloatArray
    work: Work

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        parts = (self.particles, self.rows, self.names, self.work)
        return sum(array.nbytes for part in parts for array in part)


def _laid_out(config: Config, n_features: int, n_slots: int) -> State:
    P, K, D, r, H = config.n_particles, n_slots, n_features, config.order, 2 * config.order + 1
    particles = Particles(
        weight=np.zeros(P), rate=np.zeros(P), past=np.zeros(P, np.uint64),
        owners=np.zeros((P, H), np.uint64), n_owners=np.zeros((P, K), np.int64),
        first=np.zeros((P, K), np.int64), name=np.full((P, K), -1),
        scale=np.zeros((P, K), np.int64),
        hash=np.zeros((P, K), np.uint64),
        cov=np.zeros((P, K, K)), mean=np.zeros((P, K, D)),
    )  # fmt: skip
    names = Names(
        used=np.zeros(N_NAMES, np.bool_), label=np.full(N_NAMES, -1), weight=np.zeros(N_NAMES),
        best=np.zeros(N_NAMES), holder=np.zeros(N_NAMES, np.int64),
        slot=np.zeros(N_NAMES, np.int64), born=np.zeros(N_NAMES, np.int64),
        owners=np.zeros((N_NAMES, 1 + (r - 1) // 64), np.uint64),
        loading=np.zeros((N_NAMES, D)), event_kind=np.zeros(N_NOTED, np.int64),
        event_time=np.zeros(N_NOTED), event_into=np.full(N_NOTED, -1), share=np.zeros(N_NAMES),
        history=np.full((N_HISTORY, N_ON), -1),
        event_label=np.zeros(N_NOTED, np.int64), event_index=np.zeros(N_NOTED, np.int64),
        event_born=np.zeros(N_NOTED, np.int64), event_loading=np.zeros((N_NOTED, D)),
    )  # fmt: skip
    return State(
        particles, Rows(np.zeros((r, D)), np.zeros(r, np.bool_)), names,
        np.zeros(N_COUNTS, np.int64), np.zeros(N_SUMS), _work(config, D),
    )  # fmt: skip


def _work(config: Config, D: int) -> Work:
    P, F = config.n_particles, config.most_slots + 1
    subsets = 1 << MOST_ENUMERATED
    children, pool = subsets * (MOST_NEW + 1), P * config.n_children
    table = 1 << (2 * pool - 1).bit_length()

    def f(*shape: int) -> FloatArray:
        return np.zeros(shape)

    def i(n: int) -> IntArray:
        return np.zeros(n, np.int64)

    return Work(
        residual=f(D), masked=f(D), filled=f(D), seen=f(D), e=f(D), v=f(F), pull=f(F), link=f(F),
        odds=f(F), lean=f(F), gram=f(F, F), spread=f(F, F), chosen=i(F), slots=i(F), all=i(F),
        on=i(F), own=i(F), forced=i(F), free=i(F), place_of=i(N_NAMES), log_new=f(MOST_NEW + 1),
        extra=f(MOST_NEW + 1), scale=np.zeros((P, MOST_NEW), np.int64), redrawn=i(MOST_NEW),
        subset=np.zeros(subsets, np.uint64), log_weight=f(children), weight=f(children),
        few=i(config.n_children), few_weight=f(config.n_children), total=f(P), marginal=f(P, F),
        increment=f(1), pool_parent=i(pool), pool_mask=np.zeros(pool, np.uint64), pool_new=i(pool),
        pool_weight=f(pool), pool_key=np.zeros(pool, np.uint64), table=i(table), child=i(P),
        child_weight=f(P), ancestor=i(P), place=i(P), used=np.zeros(P, np.bool_),
        column=np.zeros((F, 1 + (config.order - 1) // 64), np.uint64), like=f(F, N_NAMES),
    )  # fmt: skip


def empty_state(
    config: Config, likelihood: LinearGaussian, n_features: int, baseline: float = 0.0
) -> State:
    """Return the state before any row.

    Parameters
    ----------
    baseline : float
        Prior variance of the loading that every row has, in units of the noise variance.
    """
    state = _laid_out(config, n_features, N_SLOTS)
    particles = state.particles
    state.counts[N_ACTIVE] = 1
    state.sums[SHAPE] = likelihood.shape
    particles.weight[0] = 1.0
    particles.rate[:] = likelihood.rate
    particles.cov[:, 0, 0] = baseline
    return state


SLOTTED = ("n_owners", "first", "name", "scale", "hash", "mean", "cov")  # have a slot axis
_SCRATCH = ("best", "share")


def arrays_of(state: State) -> dict[str, NDArray[Any]]:
    """Return copies of the arrays that count, without unused slots, for a checkpoint."""
    active = int(state.counts[N_ACTIVE])
    used = state.particles.n_owners[:active] > 0
    K = 1 + int(np.flatnonzero(used.any(axis=0)).max(initial=0))
    arrays: dict[str, NDArray[Any]] = {}
    for name, values in state.particles._asdict().items():
        kept = values[:active]
        if name in SLOTTED:
            kept = kept[:, :K].copy()
            empty = ~used[:, :K]
            empty[:, 0] = name not in ("mean", "cov")
            kept[empty] = -1 if name == "name" else 0
        if name == "cov":
            kept = kept[:, :, :K].copy()
            kept.transpose(0, 2, 1)[empty] = 0
        arrays[f"particles.{name}"] = kept.copy()
    live = np.zeros(active, np.uint64)
    for k in range(1, K):
        live |= used[:, k].astype(np.uint64) << np.uint64(k)
    arrays["particles.owners"] &= live[:, None]
    for name, values in state.names._asdict().items():
        if name not in _SCRATCH:
            arrays[f"names.{name}"] = values.copy()
    arrays["n_slots"] = np.array(state.particles.n_owners.shape[1])
    arrays |= {"rows.x": state.rows.x.copy(), "rows.whole": state.rows.whole.copy()}
    return arrays | {"counts": state.counts.copy(), "sums": state.sums.copy()}


def state_from_arrays(config: Config, arrays: Mapping[str, NDArray[Any]], more: int = 1) -> State:
    """Rebuild the state that `arrays_of` described, with ``more`` times as many slots."""
    active, K = arrays["particles.n_owners"].shape
    n_slots = min(more * int(arrays["n_slots"]), config.most_slots + 1)
    state = _laid_out(config, arrays["rows.x"].shape[1], n_slots)
    for name, values in state.particles._asdict().items():
        kept = arrays[f"particles.{name}"]
        if name == "cov":
            values[:active, :K, :K] = kept
        elif name in SLOTTED:
            values[:active, :K] = kept
        else:
            values[:active] = kept
    for name, values in state.names._asdict().items():
        if f"names.{name}" in arrays:
            values[:] = arrays[f"names.{name}"]
    state.rows.x[:], state.rows.whole[:] = arrays["rows.x"], arrays["rows.whole"]
    state.counts[:], state.sums[:] = arrays["counts"], arrays["sums"]
    return state
