"""Markov chains over the links of N customers, and the draws from them."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from streamddcrp.decay import Decay
from streamddcrp.estimator.sweeps import Draws
from streamddcrp.likelihoods import Likelihood
from streamddcrp.likelihoods.kernels.families import n_post, n_stats
from streamddcrp.models.ddcrp.candidates import Candidates
from streamddcrp.models.ddcrp.kernels.sweep import draw, read_state, redraw_links, sum_tables
from streamddcrp.typing import FloatArray, IntArray

Int32Array = NDArray[np.int32]


class ChainState(NamedTuple):
    """State and work space of a chain, in the kernels' form (see `kernels.link`)."""

    general: bool  # whether links may lead to later customers
    candidates: Candidates
    own: FloatArray  # `Candidates.own`
    log_row: FloatArray  # (N,) log of each row's scaled total
    family: int
    hyper: FloatArray
    X: FloatArray  # (N, D)
    links: IntArray  # (N,)
    children: IntArray  # (N, 3)
    slot: IntArray  # (N,)
    stats: FloatArray  # (N, P)
    marginal: FloatArray  # (N,)
    free: IntArray  # (N + 1,)
    age: IntArray  # (1,) sweeps so far
    stack: IntArray  # (N,) work space from here on
    stamp: IntArray  # (N + 1,)
    mass: FloatArray  # (N,)
    touched: IntArray  # (N,)
    score: FloatArray  # (N + 1,) or more
    joint: FloatArray  # (N + 1,)
    moved: FloatArray  # (P,)
    work: FloatArray  # (P,)
    post: FloatArray  # (Q,)
    below: FloatArray  # (N, P), or (0, P) where links are not sequential
    order: IntArray  # (N,)
    turn: FloatArray  # (N,), or (0,) where links are sequential


class Chain:
    """Links of N customers with everything an update needs; initially self-links.

    ``X`` (N, D), not copied, as `Likelihood.prepare` returns it; ``hyper`` by `Likelihood.hyper`.
    """

    def __init__(
        self, X: FloatArray, family: int, hyper: FloatArray, candidates: Candidates
    ) -> None:
        n, p = len(X), int(n_stats(family, hyper))
        self._state = ChainState(
            **_allowed(candidates), family=family, hyper=hyper, X=X,
            links=np.arange(n), children=np.full((n, 3), -1), slot=np.arange(n),
            stats=np.empty((n, p)), marginal=np.empty(n), free=np.zeros(n + 1, np.int64),
            age=np.zeros(1, np.int64), stack=np.zeros(n, np.int64), stamp=np.zeros(n + 1, np.int64),
            mass=np.zeros(n), touched=np.zeros(n, np.int64), score=np.zeros(n + 1),
            joint=np.zeros(n + 1), moved=np.zeros(p), work=np.zeros(p),
            post=np.empty(int(n_post(family, hyper))),
            below=np.empty((n if candidates.sequential else 0, p)), order=np.zeros(n, np.int64),
            turn=np.zeros(0 if candidates.sequential else n),
        )  # fmt: skip
        self.refresh()

    @property
    def candidates(self) -> Candidates:
        """Candidate links. A replacement must allow all current links."""
        return self._state.candidates

    @candidates.setter
    def candidates(self, candidates: Candidates) -> None:
        self._state = self._state._replace(**_allowed(candidates))

    def refresh(self) -> None:
        """Sum the statistics of all tables again, O(N P): after a change of the rows."""
        sum_tables(self._state)

    def forward(self, rng: Generator) -> None:
        """Sweep once, first to last; a new chain draws each link given earlier customers."""
        self._run(rng, 1, 1, True, *self._output(0))

    def sweep(self, rng: Generator, n_sweeps: int = 1) -> None:
        """Draw every link once, ``n_sweeps`` times.

        Sequential links go from the last customer to the first, so the cost does not depend on the
        depth of the trees. Others go in random order within blocks of customers; if they have few
        candidates, a quarter as many branches are then moved: `kernels.branch`.
        """
        self._run(rng, 1, n_sweeps, False, *self._output(0))

    def draw(
        self, rng: Generator, thin: int, out_links: Int32Array, out_labels: Int32Array,
        out_n_tables: IntArray, out_log_joint: FloatArray,
    ) -> None:  # fmt: skip
        """Sweep ``thin`` times for each of S draws and store the draws.

        Stores links and labels (S, N), numbers of tables (S,), normalised log p(x, c) (S,).
        """
        n_draws = len(out_links)
        self._run(rng, n_draws, thin, False, out_links, out_labels, out_n_tables, out_log_joint)

    def redraw_links(self, rng: Generator) -> None:
        """Draw all links given the tables, independently, in proportion to f; sequential only."""
        redraw_links(rng, self._state)

    @property
    def links(self) -> IntArray:
        """Current links, shape (N,)."""
        return self._state.links.copy()

    @property
    def labels(self) -> IntArray:
        """Smallest customer of each customer's table, shape (N,)."""
        return self._read()[1].astype(np.int64)

    @property
    def n_tables(self) -> int:
        return len(self._state.links) - int(self._state.free[-1])

    @property
    def log_joint(self) -> float:
        """Log p(x, c) of rows and links, normalised."""
        return self._read()[0]

    def _read(self) -> tuple[float, Int32Array]:
        links, labels, *_ = self._output(1)
        log_joint, _ = read_state(self._state, links[0], labels[0])
        return float(log_joint), labels[0]

    def _output(self, rows: int) -> tuple[Int32Array, Int32Array, IntArray, FloatArray]:
        links, labels = np.empty((2, rows, len(self._state.links)), np.int32)
        return links, labels, np.empty(rows, np.int64), np.empty(rows)

    def _run(
        self, rng: Generator, n_draws: int, thin: int, forward: bool,
        *out: Int32Array | IntArray | FloatArray,
    ) -> None:  # fmt: skip
        draw(n_draws, thin, forward, rng, self.candidates.counted, self._state, *out)


def _allowed(candidates: Candidates) -> dict[str, Any]:
    log_row = candidates.log_total - candidates.log_scale
    return {
        "general": not candidates.sequential, "candidates": candidates, "own": candidates.own,
        "log_row": log_row,
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class DDCRPSamples(Draws):
    """Draws of links from their posterior.

    Attributes
    ----------
    links, labels : ndarray of int32, shape (S, N)
        Each customer's link, and its table, named after the smallest customer.
    n_tables : ndarray of int64, shape (S,)
    alpha, decay_parameter : ndarray of float64, shape (S,)
        Width, scale or location of the decay; NaN if it has none. ``log_joint`` is the normalised
        log p(x, c) at both.
    likelihood : Likelihood
        With parameters taken from the rows.
    decay : Decay
        As given.
    """

    _traced = ("n_tables", "alpha", "decay_parameter")

    links: NDArray[np.int32]
    labels: NDArray[np.int32]
    n_tables: IntArray
    alpha: FloatArray
    decay_parameter: FloatArray
    likelihood: Likelihood
    decay: Decay
