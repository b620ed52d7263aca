"""A tree of components: local and global steps, statistics, bound, and edits of nodes.

A point is a sum of the vectors of its path, each times a standard normal loading, plus a mean and
noise of precision tau. The mean and all K vectors, M (K + 1, D), have one matrix-normal posterior
with row covariance S: docs/math/trees.md (9), (10), (11), Wang and Blei (2009)
with the loadings conditional on the path and one joint Gaussian for all vectors.
"""

import math
from collections import deque
from dataclasses import asdict, dataclass, field
from itertools import repeat
from operator import add, mul
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
from scipy.special import digamma, gammaln

from streamddcrp.contract import Event
from streamddcrp.estimator.stored import read_events, refuse_unless_plain
from streamddcrp.models.trees import tree
from streamddcrp.models.trees.kernels import tree as kernels
from streamddcrp.records import FINITE, check, refuse_if
from streamddcrp.typing import FloatArray, IntArray

_NOTHING = 1e-8  # share of a point that counts as zero
_NEVER = -40.0  # log of a share that cannot change a float and counts as zero
_FAR = -700.0  # log of the least share that a float can hold
KNOWN_PRECISION = 0.25  # of pseudo-values of binary rows: the largest curvature of log sigmoid
NARROW = 1e-7  # variance of guessed vectors, in prior variances
_LOG_2PI = float(np.log(2.0 * np.pi))


class Prior(NamedTuple):
    """Prior: concentration, variances of vectors and mean, shape and rate of the precision."""

    gamma: float
    vector_var: float
    mean_var: float
    shape: float
    rate: float


class Weights(NamedTuple):
    """Posterior of everything global."""

    # J = K + 1 means: of the data, then of the nodes' vectors
    M: Annotated[FloatArray, "J D", FINITE]
    S: Annotated[FloatArray, "J J", FINITE]
    shape: float  # of the precision
    rate: float
    mass: Annotated[FloatArray, "K", FINITE]  # endpoint masses, from which q(v) follows

    @property
    def precision(self) -> float:
        """Expected precision of the noise, known if the shape is infinite."""
        return KNOWN_PRECISION if math.isinf(self.shape) else self.shape / self.rate

    @property
    def log_precision(self) -> float:
        if math.isinf(self.shape):
            return math.log(KNOWN_PRECISION)
        return float(digamma(self.shape) - np.log(self.rate))


class Stats(NamedTuple):
    """Sums over points; y = (1, loadings on the nodes), zero off the path."""

    yy: Annotated[FloatArray, "J J", FINITE]  # E[y y'], J = K + 1
    yt: Annotated[FloatArray, "J D", FINITE]  # E[y] t'
    tt: float  # |t|^2
    n: float
    fresh: float  # missing levels
    mass: Annotated[FloatArray, "K", FINITE]  # endpoint masses

    @classmethod
    def none(cls, K: int, D: int) -> Self:
        """Return the statistics of no points."""
        return cls(np.zeros((K + 1, K + 1)), np.zeros((K + 1, D)), 0.0, 0.0, 0.0, np.zeros(K))

    def plus(self, other: "Stats") -> "Stats":
        return Stats._make(map(add, self, other))

    def times(self, weight: float) -> "Stats":
        return Stats._make(map(mul, self, repeat(weight)))


class Local(NamedTuple):
    """Points on the tree."""

    q: FloatArray  # (N, K) endpoint probabilities
    log_z: FloatArray  # (N,)
    loadings: FloatArray  # (N, K) expected loadings on the nodes
    stats: Stats


def sticks_of(parent: IntArray, mass: FloatArray, gamma: float) -> tuple[FloatArray, FloatArray]:
    """Return the parameters (K,) of q(v) from endpoint masses."""
    size, a, b = np.empty((3, len(parent)))
    kernels.beta_parameters(parent, len(parent), mass, gamma, size, a, b)
    return a, b


def local_step(
    X: FloatArray, parent: IntArray, level: IntArray, L: int, w: Weights, prior: Prior, *,
    far: bool = False,
) -> Local:  # fmt: skip
    """Place points (N, D) on the tree, with the optimal q(c) and q(x | endpoint).

    log p(t | endpoint) = D/2 (E log tau - log 2 pi) - tau/2 (|t - m_mu|^2 + D S_mu,mu)
    + h' Sig h / 2 + log det(Sig) / 2 - (L - l0) / 2 log(1 + tau D var),  Sig^-1 = I + tau G_PP,
    G = M M' + D S,  h = tau ((t - m_mu) M_P' - D S_P,mu).
    """
    N, D = X.shape
    K = len(parent)
    tau = w.precision
    G = w.M @ w.M.T + D * w.S
    MX = w.M @ X.T
    tt = np.einsum("nd,nd->n", X, X)
    z = tau * (MX[1:] - G[0, 1:, None])
    paths = tree.paths_of(parent, level, L)
    rows, log_det = np.zeros((K, L)), np.empty(K)
    kernels.factors(G, tau, paths, level, rows, log_det)
    a, b = sticks_of(parent, w.mass, prior.gamma)
    chances = np.empty(K)
    kernels.log_path_chances(parent, level, K, L, a, b, prior.gamma, False, chances)
    missing = tau * D * prior.vector_var
    chances += 0.5 * (log_det - (L - level) * np.log1p(missing))
    chances += 0.5 * D * (w.log_precision - _LOG_2PI)
    q, log_z = np.empty((K, N)), np.empty(N)
    base = -0.5 * tau * (tt - 2.0 * MX[0] + G[0, 0])
    kernels.place_points(z, paths, level, rows, chances, base, _FAR if far else _NEVER, q, log_z)
    loadings, yy, mass = np.zeros((K, N)), np.zeros((K + 1, K + 1)), q.sum(axis=1)
    kernels.collect_loadings(z, paths, level, rows, q, _NOTHING, loadings, yy)
    yy[0, 0], yy[1:, 0] = N, yy[0, 1:]
    yt = np.concatenate([X.sum(axis=0)[None], loadings @ X])
    fresh = float(mass @ ((L - level) / (1.0 + missing)))
    return Local(q.T, log_z, loadings.T, Stats(yy, yt, float(tt.sum()), float(N), fresh, mass))


def global_step(stats: Stats, w: Weights, prior: Prior) -> Weights:
    """Return the optimum of vectors and mean, of the precision, and of the sticks."""
    K1, D = stats.yt.shape
    inverse = w.precision * stats.yy
    inverse[np.diag_indices(K1)] += 1.0 / _variances(K1, prior)
    S = _inverse(inverse)
    S = 0.5 * (S + S.T)
    M = w.precision * (S @ stats.yt)
    residual = stats.tt - 2.0 * np.sum(M * stats.yt) + np.sum(stats.yy * (M @ M.T + D * S))
    residual += stats.fresh * D * prior.vector_var
    shape = prior.shape + 0.5 * stats.n * D
    return Weights(M, S, shape, prior.rate + 0.5 * max(residual, 0.0), stats.mass.copy())


def _inverse(A: FloatArray) -> FloatArray:
    """Invert a positive definite matrix, even a numerically singular one."""
    try:
        out = np.linalg.inv(A)
        if np.isfinite(out).all():
            return np.asarray(out, np.float64)
    except np.linalg.LinAlgError:
        pass
    unit = 1.0 / np.sqrt(np.diag(A))
    size, axes = np.linalg.eigh(A * unit * unit[:, None])
    size = np.maximum(size, np.finfo(float).eps * size[-1])
    axes *= unit[:, None]
    return np.asarray((axes / size) @ axes.T, np.float64)


def _variances(K1: int, prior: Prior) -> FloatArray:
    out = np.full(K1, prior.vector_var)
    out[0] = prior.mean_var
    return out


def kl_of_all(parent: IntArray, w: Weights, prior: Prior) -> float:
    """Return the divergence of all global parameters from their prior."""
    K1, D = w.M.shape
    var = _variances(K1, prior)
    vectors = np.sum((D * np.diag(w.S) + np.sum(w.M**2, axis=1)) / var) - K1 * D
    sign, log_det = np.linalg.slogdet(w.S)
    if sign <= 0.0:  # singular by rounding
        of = np.linalg.eigvalsh(w.S)
        log_det = np.sum(np.log(np.maximum(of, np.finfo(float).eps * of[-1])))
    vectors += D * np.sum(np.log(var)) - D * log_det
    at, bt, a0, b0 = w.shape, w.rate, prior.shape, prior.rate
    noise = 0.0
    if not math.isinf(at):
        noise = (at - a0) * digamma(at) - gammaln(at) + gammaln(a0) + a0 * (np.log(bt) - np.log(b0))
        noise += at * (b0 - bt) / bt
    a, b = (part[1:] for part in sticks_of(parent, w.mass, prior.gamma))
    both = digamma(a + b)
    log_beta = gammaln(a) + gammaln(b) - gammaln(a + b)
    sticks = (a - 1.0) * (digamma(a) - both) + (b - prior.gamma) * (digamma(b) - both)
    return float(0.5 * vectors + noise + np.sum(sticks - log_beta - np.log(prior.gamma)))


_NODES = ("parent", "level", "ids", "born")
_COUNTERS = ("next_id", "n_seen", "n_born", "n_pruned", "n_refused")


@dataclass(slots=True)
class ComponentState:
    """K nodes, the posterior, and the points that determine it."""

    depth: int
    prior: Prior
    parent: IntArray  # (K,)
    level: IntArray  # (K,)
    ids: IntArray  # (K,)
    born: IntArray  # (K,)
    weights: Weights
    past: Stats  # of points that have left the window
    X: Annotated[FloatArray, "N D", FINITE]  # the window: points, of a `BinaryTree` (n, 2 D)
    max_nodes: int
    next_id: int
    n_seen: int = 0
    events: deque[Event] = field(default_factory=lambda: deque(maxlen=1024))
    n_born: int = 0
    n_pruned: int = 0
    n_refused: int = 0  # moves refused for lack of nodes that would have raised the bound

    @property
    def n_nodes(self) -> int:
        return len(self.parent)

    def sizes(self) -> FloatArray:
        """Return the points through each node, (K,)."""
        return tree.sizes_of(self.parent, self.weights.mass)

    def paths(self) -> IntArray:
        """Return the slots on the path to each node, (K, L), -1 below it."""
        return tree.paths_of(self.parent, self.level, self.depth)

    @property
    def points(self) -> FloatArray:
        """Points of the window, (n, D)."""
        return self.X

    def move_tangents(self, local: Local) -> None:
        """Update other data of the window's rows; points have none."""

    def left_over(self) -> float:
        """Return the window's bound minus that of the points; for points 0."""
        return 0.0

    def place(self, X: FloatArray) -> Local:
        """Place rows outside the window."""
        return self.local(X)

    def reconstruct(self, X: FloatArray) -> FloatArray:
        """Project points onto the mean and the vectors of their likeliest endpoints."""
        ends = self.local(X).q.argmax(axis=1)
        return tree.reconstruct(X, ends, self.parent, self.level, self.depth, self.weights.M)

    def local(self, X: FloatArray, *, far: bool = False) -> Local:
        """Place points; ``far`` includes unlikely places."""
        return local_step(X, self.parent, self.level, self.depth, self.weights, self.prior, far=far)

    def sweep(self, n: int, *, alone: bool = False) -> None:
        """Ascend n times with fixed past; ``alone``: the window represents all points seen."""
        for _ in range(n):
            local = self.local(self.points)
            scale = self.n_seen / len(self.X)
            stats = local.stats.times(scale) if alone else self.past.plus(local.stats)
            self.weights = global_step(stats, self.weights, self.prior)
            self.move_tangents(local)

    def bound(self) -> float:
        """Return the bound, where the window represents all points seen."""
        local = self.local(self.points)
        part = (float(local.log_z.sum()) + self.left_over()) * self.n_seen / max(len(self.X), 1)
        return part - kl_of_all(self.parent, self.weights, self.prior)

    def add(self, p: int, vectors: FloatArray, mass: float = 0.0) -> int:
        """Add a path of nodes below p, with ``mass`` of all points; return the first one's slot."""
        K, n = self.n_nodes, len(vectors)
        line = np.arange(K, K + n)
        self.parent = np.concatenate([self.parent, [p], line[:-1]])
        self.level = np.concatenate([self.level, self.level[p] + 1 + np.arange(n)])
        self.ids = np.concatenate([self.ids, self.next_id + np.arange(n)])
        self.born = np.concatenate([self.born, np.full(n, self.n_seen)])
        self.next_id += n
        w, past = self.weights, self.past
        S = NARROW * self.prior.vector_var * np.eye(K + n + 1)
        S[: K + 1, : K + 1] = w.S
        ends = np.concatenate([w.mass * (1.0 - mass / max(w.mass.sum(), mass)), np.zeros(n)])
        ends[-1] = mass
        self.weights = Weights(np.concatenate([w.M, vectors]), S, w.shape, w.rate, ends)
        self.past = past._replace(
            yy=np.pad(past.yy, (0, n)),
            yt=np.pad(past.yt, ((0, n), (0, 0))),
            mass=np.pad(past.mass, (0, n)),
        )
        return K

    def set_vector(self, i: int, vector: FloatArray) -> None:
        M = self.weights.M.copy()
        M[i + 1] = vector
        self.weights = self.weights._replace(M=M)

    def attach(self, nodes: IntArray, p: int) -> None:
        """Attach nodes and their descendants to p; drop nodes that no longer lead to a leaf."""
        self.parent = self.parent.copy()
        self.parent[nodes] = p
        self.keep(self.level == self.depth)

    def keep(self, leaves: np.ndarray) -> None:
        """Drop all leaves except some, and sort siblings by size."""
        if not leaves.any():
            return
        w, p = self.weights, self.past
        down = np.argsort(self.level, kind="stable")  # parents before children
        back = np.argsort(down)
        parent = np.where(self.parent[down] < 0, -1, back[self.parent[down]])
        kept = tree.with_ancestors(self.parent, self.level, leaves)[down]
        order = tree.sorted_order(parent, self.level[down], w.mass[down], kept)
        slots, to = down[order.slots], order.to[back]
        at = np.concatenate([[0], slots + 1])
        mass, past_mass = np.zeros((2, len(slots)))
        np.add.at(mass, to, w.mass)
        np.add.at(past_mass, to, p.mass)
        self.weights = Weights(w.M[at], w.S[np.ix_(at, at)], w.shape, w.rate, mass)
        self.past = p._replace(yy=p.yy[np.ix_(at, at)], yt=p.yt[at], mass=past_mass)
        self.ids, self.born = self.ids[slots], self.born[slots]
        self.parent, self.level = order.parent, order.level

    def to_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        w, past = self.weights._asdict(), self.past._asdict()
        arrays = tree.attributes(self, (*_NODES, "X"))
        arrays |= {name: w.pop(name) for name in ("M", "S", "mass")}
        arrays |= {f"past.{name}": past.pop(name) for name in ("yy", "yt", "mass")}
        meta = {"prior": list(self.prior), "events": [asdict(event) for event in self.events]}
        return arrays, tree.attributes(self, _COUNTERS) | meta | {"weights": w, "past": past}

    @classmethod
    def from_state(
        cls, arrays: dict[str, Any], meta: dict[str, Any], depth: int, max_nodes: int
    ) -> Self:
        lengths = tree.check_nodes(arrays, depth, max_nodes)
        refuse_if(not bool((arrays["level"] == depth).any()), "leaves")
        lengths = check(cls, arrays, lengths | {"J": lengths["K"] + 1})
        lengths = check(Weights, arrays, lengths)
        check(Stats, arrays, lengths, "past.")
        past = {name: arrays[f"past.{name}"] for name in ("yy", "yt", "mass")}
        numbers = [*meta["prior"], *meta["weights"].values(), *meta["past"].values()]
        refuse_if(not all(type(x) is float and math.isfinite(x) for x in numbers), "numbers")
        refuse_if(min(meta["prior"]) <= 0.0 or min(meta["weights"].values()) <= 0.0, "prior")
        refuse_unless_plain(meta, counts=_COUNTERS)
        return cls(
            depth=depth,
            max_nodes=max_nodes,
            prior=Prior(*meta["prior"]),
            weights=Weights(M=arrays["M"], S=arrays["S"], mass=arrays["mass"], **meta["weights"]),
            past=Stats(**past, **meta["past"]),
            events=deque(read_events(meta["events"]), maxlen=1024),
            **{name: arrays[name] for name in (*_NODES, "X")},
            **{name: meta[name] for name in _COUNTERS},
        )
