"""Settings and state of the time-varying Indian buffet process.

Axes: P particles, K slots per particle (grows), H = 2 r + 1 rows of owners, R = r rows of the
window as W words of bits, D columns of a row, G names of features, E events, F slots at most, M
children of all particles. Kernels update the arrays in place; none depends on the length of the
stream.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamddcrp import records as rec
from streamddcrp.contract import EventRing, empty_events
from streamddcrp.likelihoods.linear_gaussian import LinearGaussian
from streamddcrp.models.features.kernels import slots as at
from streamddcrp.particles.state import BoolArray, UintArray
from streamddcrp.typing import FloatArray, IntArray
from streamddcrp.validation import particle_count, positive, whole

CHILDREN = 16  # of a particle that compete with others
LONGEST = 100_000  # rows of a window
N_SLOTS = 8  # at first
N_NAMES, N_EVENTS = 96, 128  # features known, births and deaths that are kept


class Config(NamedTuple):
    """Settings in the kernels' form; created and checked by `make_config`."""

    order: int  # r: a row sees the r rows before it
    alpha: float
    n_particles: int
    n_children: int
    moves: int
    seed: int
    most_new: int  # new features of a row
    most_slots: int  # features of a particle, including the baseline
    log: FloatArray  # (r + 3,) log 0 .. log(r + 2)
    ratios: FloatArray  # (G,) noise variance over that of loadings, each as probable


def make_config(
    *, window: int, alpha: float, n_particles: int, moves: int, seed: int, ratios: Sequence[float]
) -> Config:
    """Check the options of `TimeVaryingIBP` and convert them for the kernels."""
    window = whole("window", window, 1, LONGEST)
    n_particles = particle_count(n_particles, 2 * window + 1 + N_SLOTS * N_SLOTS, "window")
    moves = whole("moves", moves, 0, 1 << 16)
    seed = whole("seed", seed, 0, (1 << 63) - 1)
    with np.errstate(divide="ignore"):
        log = np.log(np.arange(window + 3.0))
    return Config(
        window, positive("alpha", alpha), n_particles, CHILDREN, moves, seed, at.MOST_NEW,
        at.MOST_FEATURES, log, np.array(ratios, dtype=np.float64),
    )  # fmt: skip


class Particles(NamedTuple):
    """Particles; the first ``counts[N_ACTIVE]`` of them are in use."""

    weight: Annotated[FloatArray, "P", rec.CHANCE]  # sums to 1
    # Of the noise variance's inverse gamma, or the known variance itself.
    rate: Annotated[FloatArray, "P", rec.WEIGHT]
    past: Annotated[UintArray, "P"]  # hash of dead features
    owners: Annotated[UintArray, "P H"]  # features of row u as bits, at u mod H
    n_owners: Annotated[IntArray, "P K", rec.up_to("R")]  # of the last r rows; 0: the slot is free
    first: Annotated[IntArray, "P K"]  # first owner
    scale: Annotated[IntArray, "P K", rec.index("Q")]  # which ratio of noise to loading variance
    # position in `Names`, -1 for none
    name: Annotated[IntArray, "P K", -1, rec.index("G", none=True)]
    hash: Annotated[UintArray, "P K"]  # sum of the hashes of all owners
    cov: Annotated[FloatArray, "P K K", rec.FINITE]  # posterior of the loadings
    mean: Annotated[FloatArray, "P K D", rec.FINITE]


class Rows(NamedTuple):
    """The last r rows (row u at u mod r) and whether each came without gaps."""

    x: Annotated[FloatArray, "R D", rec.FINITE]
    whole: Annotated[BoolArray, "R"]


class Names(NamedTuple):
    """Features shared by particles."""

    used: Annotated[BoolArray, "G"]
    label: Annotated[IntArray, "G", -1]  # public id, if it was ever live
    weight: Annotated[FloatArray, "G", rec.WEIGHT]  # of the particles with it
    best: Annotated[FloatArray, "G"]  # of the heaviest one
    holder: Annotated[IntArray, "G", rec.up_to("P")]  # the heaviest one
    slot: Annotated[IntArray, "G", rec.up_to("S")]  # and its slot there
    born: Annotated[IntArray, "G"]
    owners: Annotated[UintArray, "G W"]  # rows of the window with it there, as bits
    loading: Annotated[FloatArray, "G D"]
    gone: Annotated[FloatArray, "E D"]  # loadings of features at the last events
    share: Annotated[FloatArray, "G"]
    # Ids (-1: none) of row u when it left the window, at u mod 1024.
    history: Annotated[IntArray, "1024 12", -1]


class Scratch(NamedTuple):
    """Work space. Axes: V new features, O options of them, C children of a particle, B kept."""

    residual: Annotated[FloatArray, "D"]
    masked: Annotated[FloatArray, "D"]
    filled: Annotated[FloatArray, "D"]
    e: Annotated[FloatArray, "D"]
    v: Annotated[FloatArray, "F"]
    pull: Annotated[FloatArray, "F"]
    link: Annotated[FloatArray, "F"]
    odds: Annotated[FloatArray, "F"]
    lean: Annotated[FloatArray, "F"]
    gram: Annotated[FloatArray, "F F"]
    spread: Annotated[FloatArray, "F F"]
    chosen: Annotated[IntArray, "F"]
    slots: Annotated[IntArray, "F"]
    on: Annotated[IntArray, "F"]
    forced: Annotated[IntArray, "F"]
    free: Annotated[IntArray, "F"]
    place_of: Annotated[IntArray, "G"]
    log_new: Annotated[FloatArray, "U"]  # U = V + 1
    log_option: Annotated[FloatArray, "O"]
    extra: Annotated[FloatArray, "O"]
    scale: Annotated[IntArray, "P V"]
    wide: Annotated[FloatArray, "C"]
    squares: Annotated[FloatArray, "C"]
    spare: Annotated[FloatArray, "C"]
    log_weight: Annotated[FloatArray, "C"]
    weight: Annotated[FloatArray, "C"]
    # Without the resampled row: loadings of features, and each one's covariance with the sum of the
    # row's features.
    mean: Annotated[FloatArray, "F D"]
    shared: Annotated[FloatArray, "K"]
    # Log prior odds of features at the rows of the window, and whether they are up to date.
    row_odds: Annotated[FloatArray, "K R"]
    has_odds: Annotated[IntArray, "K"]
    thinned: Annotated[IntArray, "C"]
    few: Annotated[IntArray, "B"]
    few_weight: Annotated[FloatArray, "B"]
    total: Annotated[FloatArray, "P"]
    marginal: Annotated[FloatArray, "P F"]
    increment: Annotated[FloatArray, "1"]
    pool_parent: Annotated[IntArray, "M"]
    pool_mask: Annotated[UintArray, "M"]
    pool_new: Annotated[IntArray, "M"]
    pool_weight: Annotated[FloatArray, "M"]
    pool_key: Annotated[UintArray, "M"]
    table: Annotated[IntArray, "T"]  # T a power of two, at least 2 M
    child: Annotated[IntArray, "P"]
    child_weight: Annotated[FloatArray, "P"]
    ancestor: Annotated[IntArray, "P"]
    place: Annotated[IntArray, "P"]
    used: Annotated[BoolArray, "P"]
    column: Annotated[UintArray, "F W"]
    # Similar features of a particle and known ones, as slot G + place, and their similarity.
    pair: Annotated[IntArray, "Y"]
    like: Annotated[FloatArray, "Y"]


class State(NamedTuple):
    """The engine's memory; `counts` and `sums` are laid out in `kernels.slots`."""

    particles: Particles
    rows: Rows
    names: Names
    events: EventRing
    counts: IntArray
    sums: FloatArray
    scratch: Scratch

    @property
    def nbytes(self) -> int:
        return rec.nbytes_of(self)


def _empty(config: Config, n_features: int, n_slots: int) -> State:
    P, r, n_options = config.n_particles, config.order, at.MOST_NEW + len(config.ratios)
    M = P * config.n_children
    lengths = {
        "P": P, "K": n_slots, "H": 2 * r + 1, "R": r, "W": 1 + (r - 1) // 64, "D": n_features,
        "G": N_NAMES, "E": N_EVENTS, "F": config.most_slots + 1, "V": at.MOST_NEW,
        "U": at.MOST_NEW + 1, "O": n_options, "C": n_options << at.MOST_ENUMERATED,
        "B": config.n_children, "M": M, "T": 1 << (2 * M - 1).bit_length(), "Y": n_slots * N_NAMES,
    }  # fmt: skip
    return State(
        particles=rec.empty(Particles, lengths),
        rows=rec.empty(Rows, lengths),
        names=rec.empty(Names, lengths),
        events=empty_events(N_EVENTS),
        counts=np.zeros(at.N_COUNTS, np.int64),
        sums=np.zeros(at.N_SUMS),
        scratch=rec.empty(Scratch, lengths),
    )


def empty_state(
    config: Config, likelihood: LinearGaussian, n_features: int, baseline: float = 0.0
) -> State:
    """Return the state before any row; ``baseline``: a loading's variance, in that of noise."""
    state = _empty(config, n_features, N_SLOTS)
    particles = state.particles
    state.counts[at.N_ACTIVE] = 1
    state.sums[at.SHAPE] = likelihood.shape
    particles.weight[0] = 1.0
    particles.rate[:] = likelihood.rate
    particles.cov[:, 0, 0] = baseline
    return state


_NOT_STORED = ("best", "share")


def arrays_of(state: State) -> dict[str, NDArray[Any]]:
    """Return copies of the counting arrays, without unused slots, for a checkpoint."""
    active = int(state.counts[at.N_ACTIVE])
    used = state.particles.n_owners[:active] > 0
    K = 1 + int(np.flatnonzero(used.any(axis=0)).max(initial=0))
    used = used[:, :K]
    arrays: dict[str, NDArray[Any]] = {}
    for field in rec.declared(Particles):
        axes, values = field.room, getattr(state.particles, field.name)
        sizes = {"P": active, "K": K}
        kept = values[tuple(slice(sizes.get(axis)) for axis in axes)].copy()
        if "K" in axes:
            unused = ~used
            unused[:, 0] = len(axes) < 3  # the baseline has a loading
            kept[unused] = field.fill
            if axes.count("K") == 2:
                kept.transpose(0, 2, 1)[unused] = field.fill
        arrays[f"particles.{field.name}"] = kept
    live = np.zeros(active, np.uint64)
    for k in range(1, K):
        live |= used[:, k].astype(np.uint64) << np.uint64(k)
    arrays["particles.owners"] &= live[:, None]
    arrays |= {name: values.copy() for name, values in _common(state)}
    arrays["n_slots"] = np.array(state.particles.n_owners.shape[1])
    return arrays | {"counts": state.counts.copy(), "sums": state.sums.copy()}


def _common(state: State) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the arrays that are stored whole, by name."""
    for part in ("rows", "names", "events"):
        for name, values in getattr(state, part)._asdict().items():
            if name not in _NOT_STORED:
                yield f"{part}.{name}", values


COUNTS = rec.counters({at.N_ACTIVE: rec.Within(1, "P"), at.N_NAMED: rec.Within(0, rec.MOST)})


def check_arrays(config: Config, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Refuse inconsistent arrays before any is used."""
    r, n_slots = config.order, arrays["n_slots"]
    rec.check_one("n_slots", n_slots, (), np.int64, rec.Within(1, config.most_slots + 1))
    active, K = arrays["particles.weight"].shape[-1], arrays["particles.n_owners"].shape[-1]
    lengths = {
        "P": active, "K": K, "H": 2 * r + 1, "R": r, "W": 1 + (r - 1) // 64, "G": N_NAMES,
        "E": N_EVENTS, "Q": len(config.ratios), "S": int(n_slots),
        "D": arrays["rows.x"].shape[-1],
    }  # fmt: skip
    counts = arrays["counts"]
    rec.check_one("counts", counts, (at.N_COUNTS,), np.int64, COUNTS, {"P": config.n_particles})
    rec.check_one("sums", arrays["sums"], (at.N_SUMS,), np.float64, rec.ANY)
    rec.check(Particles, arrays, lengths, "particles.")
    rec.check(Rows, arrays, lengths, "rows.")
    if "names.used" in arrays:  # they are rebuilt when states are joined
        lengths["P"] = config.n_particles
        rec.check(Names, arrays, lengths, "names.", without=_NOT_STORED)
        rec.check(EventRing, arrays, lengths, "events.")
    used, owners = arrays["particles.n_owners"] > 0, arrays["particles.owners"]
    live = np.zeros(active, np.uint64)
    for k in range(1, K):
        live |= used[:, k].astype(np.uint64) << np.uint64(k)
    rec.refuse_if(
        counts[at.N_ACTIVE] != active or n_slots < K or bool((owners & ~live[:, None]).any()),
        "features and their owners",
    )


def state_from_arrays(config: Config, arrays: Mapping[str, NDArray[Any]], more: int = 1) -> State:
    """Rebuild the state from `arrays_of`, with ``more`` times as many slots."""
    n_slots = min(more * int(arrays["n_slots"]), config.most_slots + 1)
    state = _empty(config, arrays["rows.x"].shape[1], n_slots)
    for name, values in state.particles._asdict().items():
        kept = arrays[f"particles.{name}"]
        values[tuple(slice(n) for n in kept.shape)] = kept
    for name, values in _common(state):
        if name in arrays:
            values[:] = arrays[name]
    state.counts[:], state.sums[:] = arrays["counts"], arrays["sums"]
    return state
