"""One Markov chain over the links of N customers."""

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from streamddcrp.likelihoods.kernels.families import n_post, n_stats
from streamddcrp.models.ddcrp.candidates import Candidates
from streamddcrp.models.ddcrp.kernels.hyper import redraw_links
from streamddcrp.models.ddcrp.kernels.sweep import draw, found_tables, read_state
from streamddcrp.typing import FloatArray, IntArray

Int32Array = NDArray[np.int32]


class Chain:
    """Links of N customers with all that an update needs; starts with everybody self-linked.

    Parameters
    ----------
    X : ndarray of float64, shape (N, D)
        Rows as the kernels read them (`Likelihood.prepare`); not copied.
    family : int
        Code of the likelihood.
    hyper : ndarray of float64
        Its prior (`Likelihood.hyper`).
    candidates : Candidates
    """

    def __init__(
        self, X: FloatArray, family: int, hyper: FloatArray, candidates: Candidates
    ) -> None:
        n, p = len(X), int(n_stats(family, hyper))
        self._rows = family, hyper, X
        self._links = np.arange(n)
        self._kids = np.full((n, 3), -1)
        self._slot = np.arange(n)
        self._stats, self._marginal = np.empty((n, p)), np.empty(n)
        self._free = np.zeros(n + 1, np.int64)
        self._post = np.empty(int(n_post(family, hyper)))
        self._work = (
            np.zeros(n, np.int64), np.zeros(n + 1, np.int64),  # stack, stamp
            np.zeros(n), np.zeros(n, np.int64),  # mass, touched
            np.zeros(n + 1), np.zeros(n + 1), np.zeros(p), np.zeros(p),  # score, joint, moved, work
        )  # fmt: skip
        self._below = np.empty((n if candidates.sequential else 0, p))
        self._order, self._age = np.zeros(n, np.int64), np.zeros(1, np.int64)
        self.candidates = candidates
        self.refresh()

    @property
    def candidates(self) -> Candidates:
        """Links that are possible. May be replaced by others that allow all current links."""
        return self._candidates

    @candidates.setter
    def candidates(self, candidates: Candidates) -> None:
        self._candidates = c = candidates
        self._choice = c.shared, c.start, c.customer, c.weight, c.own
        self._log_row = c.log_total - c.log_scale

    def refresh(self) -> None:
        """Sum the statistics of all tables anew, O(N P): after a change of the rows."""
        family, hyper, X = self._rows
        found_tables(
            family, hyper, X, self._slot, self._free, self._post, self._stats, self._marginal
        )

    def forward(self, rng: Generator) -> None:
        """Sweep once from the first customer to the last.

        From the start, where everybody is self-linked, sequential links are then drawn one after
        the other, each given the customers before.
        """
        self._run(rng, 1, 1, True, *self._nothing())

    def sweep(self, rng: Generator, n_sweeps: int = 1) -> None:
        """Draw every link once, ``n_sweeps`` times.

        Sequential links from the last customer to the first: the cost does then not depend on how
        deep the trees are. Others in a random order, block after block of customers.
        """
        self._run(rng, 1, n_sweeps, False, *self._nothing())

    def draw(
        self,
        rng: Generator,
        thin: int,
        out_links: Int32Array,
        out_labels: Int32Array,
        out_n_tables: IntArray,
        out_log_joint: FloatArray,
    ) -> None:
        """Sweep ``thin`` times for each of S draws and write these down.

        Parameters
        ----------
        rng : Generator
        thin : int
        out_links, out_labels : ndarray of int32, shape (S, N)
        out_n_tables : ndarray of int64, shape (S,)
        out_log_joint : ndarray of float64, shape (S,)
            log p(x, c), normalised.
        """
        self._run(
            rng, len(out_links), thin, False, out_links, out_labels, out_n_tables, out_log_joint
        )

    def redraw_links(self, rng: Generator) -> None:
        """Draw all links anew given the tables, under the current candidates; sequential only.

        Links given the tables are independent, p(c_i = j) in proportion to f_ij within the table.
        """
        redraw_links(rng, *self._choice[:4], self._slot, self._links, self._kids)

    @property
    def links(self) -> IntArray:
        """Current links, shape (N,)."""
        return self._links.copy()

    @property
    def labels(self) -> IntArray:
        """Smallest customer of each customer's table, shape (N,)."""
        return self._read()[1].astype(np.int64)

    @property
    def n_tables(self) -> int:
        """Number of tables."""
        return len(self._links) - int(self._free[-1])

    @property
    def log_joint(self) -> float:
        """Log p(x, c) of rows and links, normalised."""
        return self._read()[0]

    def _read(self) -> tuple[float, Int32Array]:
        links, labels, _, _ = self._nothing(1)
        log_joint, _ = read_state(
            *self._choice, self._log_row, self._links, self._slot, self._marginal, self._order,
            links[0], labels[0],
        )  # fmt: skip
        return float(log_joint), labels[0]

    def _nothing(self, rows: int = 0) -> tuple[Int32Array, Int32Array, IntArray, FloatArray]:
        n = len(self._links)
        return (
            np.empty((rows, n), np.int32), np.empty((rows, n), np.int32),
            np.empty(rows, np.int64), np.empty(rows),
        )  # fmt: skip

    def _run(
        self,
        rng: Generator,
        n_draws: int,
        thin: int,
        forward: bool,
        *out: Int32Array | IntArray | FloatArray,
    ) -> None:
        c = self._candidates
        draw(
            n_draws, thin, forward, rng, not c.sequential, c.counted, *self._choice, self._log_row,
            *self._rows, self._links, self._kids, self._slot, self._stats, self._marginal,
            self._free, *self._work, self._post, self._below, self._order, self._age, *out,
        )  # fmt: skip
