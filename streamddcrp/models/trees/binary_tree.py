"""A tree of components for binary rows: exponential family components on each path.

p(t_d = 1 | path, x) = sigmoid(psi_d),  psi = mu + sum over the path of x_l w_l,  in log odds. With
the quadratic bound of Boehning (1992) at any point xi,

log p(t | psi) >= (t - sigmoid(xi)) (psi - xi) - (psi - xi)^2 / 8 + log p(t | xi)
                = log N(z | psi, 4) + c,    z = xi + 4 (t - sigmoid(xi)),

To the tree, z is what a value is to a tree of Gaussian components, with known precision: every step
and move is the same. The bound is highest if xi is the expected psi of its row and column, and
finding it is one more step of the coordinate ascent.

M. E. Khan, B. M. Marlin, G. Bouchard and K. P. Murphy, Variational bounds for mixed-data factor
analysis, NIPS 2010, have this for one set of components.
"""

import math
from typing import Any, Self

import numpy as np
from scipy.special import expit

from streamddcrp.models.trees.component_state import KNOWN_PRECISION, Local, Prior
from streamddcrp.models.trees.components import ComponentTree
from streamddcrp.records import refuse_if
from streamddcrp.typing import FloatArray

_VECTOR_VAR, _MEAN_VAR = 1.0, 10.0  # of vectors and mean, in squared log odds
_ROUNDS = 20  # steps from the mean to the place of a new row


def binary_prior(gamma: float) -> Prior:
    """Return the prior of vectors and mean in log odds; the precision is known."""
    return Prior(float(gamma), _VECTOR_VAR, _MEAN_VAR, math.inf, math.inf)


def pseudo_values(T: FloatArray, xi: FloatArray) -> FloatArray:
    """Return z for values T and points of tangency xi, all (N, D)."""
    return np.asarray(xi + (T - expit(xi)) / KNOWN_PRECISION)


def left_over(T: FloatArray, xi: FloatArray) -> FloatArray:
    """Return the bound's c, summed over each row, (N,)."""
    rest = T - expit(xi)
    c = T * xi - np.logaddexp(0.0, xi) + 0.5 * rest**2 / KNOWN_PRECISION
    return np.asarray((c - 0.5 * np.log(KNOWN_PRECISION / (2.0 * np.pi))).sum(axis=1))


class BinaryTree(ComponentTree):
    """A tree of components of binary rows; a row of the window ``X`` is (values, xi), (n, 2 D)."""

    __slots__ = ()

    @classmethod
    def founded(cls, X: FloatArray, depth: int, prior: Prior, max_nodes: int) -> Self:
        """Return a single path, from the principal directions of first binary rows (n, D)."""
        rate = (X.sum(axis=0) + 0.5) / (len(X) + 1.0)
        xi = np.tile(np.log(rate) - np.log1p(-rate), (len(X), 1))
        out = super().founded(pseudo_values(X, xi), depth, prior, max_nodes)
        out.X = np.concatenate([X, xi], axis=1)
        return out

    @property
    def points(self) -> FloatArray:
        """Pseudo-values z of the window, (n, D)."""
        return pseudo_values(*np.split(self.X, 2, axis=1))

    def left_over(self) -> float:
        """Return the window's bound minus that of the pseudo-values."""
        return float(left_over(*np.split(self.X, 2, axis=1)).sum())

    def expected(self, local: Local) -> FloatArray:
        """Return the expected psi of rows, (N, D)."""
        return np.asarray(self.weights.M[0] + local.loadings @ self.weights.M[1:])

    def move_tangents(self, local: Local) -> None:
        """Move the points of tangency of the window to the expected psi."""
        self.X = np.concatenate([self.X[:, : self.X.shape[1] // 2], self.expected(local)], axis=1)

    def seated(self, X: FloatArray) -> FloatArray:
        """Return values and points of tangency of new binary rows (N, D)."""
        xi = np.tile(self.weights.M[0], (len(X), 1))
        for _ in range(_ROUNDS):
            xi = self.expected(self.local(pseudo_values(X, xi)))
        return np.concatenate([X, xi], axis=1)

    def place(self, X: FloatArray) -> Local:
        """Place binary rows (N, D); log_z bounds the log probability of each."""
        T, xi = np.split(self.seated(X), 2, axis=1)
        local = self.local(pseudo_values(T, xi))
        return local._replace(log_z=local.log_z + left_over(T, xi))

    def reconstruct(self, X: FloatArray) -> FloatArray:
        """Return the probability of a one at the expected psi, (N, D)."""
        return np.asarray(expit(self.expected(self.place(X))))

    def to_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return arrays and JSON values, with 1 for infinite ones."""
        arrays, meta = super().to_state()
        known = {"shape": 1.0, "rate": 1.0}
        return arrays, meta | {"prior": [*meta["prior"][:3], 1.0, 1.0], "weights": known}

    @classmethod
    def from_state(
        cls, arrays: dict[str, Any], meta: dict[str, Any], depth: int, max_nodes: int
    ) -> Self:
        X, D = arrays["X"], arrays["M"].shape[-1]
        refuse_if(X.ndim != 2 or X.shape[1] != 2 * D, "columns")
        refuse_if(not (np.isin(X[:, :D], (0.0, 1.0)).all() and np.isfinite(X).all()), "values")
        short = arrays | {"X": np.ascontiguousarray(X[:, :D])}
        out = super().from_state(short, meta, depth, max_nodes)
        out.X = X
        out.prior = out.prior._replace(shape=math.inf, rate=math.inf)
        out.weights = out.weights._replace(shape=math.inf, rate=math.inf)
        return out
