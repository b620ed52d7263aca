"""Directions that many columns share: correlated columns as a few coordinates and a remainder.

Columns that move together say one thing many times, and a product of their densities counts it as
often. Rows y = (x - center) / scale are therefore learned as their coordinates z = V y along the Q
principal directions that first rows show, and as remainders x - center - scale V'z, one a column.
The coordinates are uncorrelated. Each remainder counts 1 / D, so that all of them count as one
column: what they say of a row is seen, but it cannot outvote the coordinates.

With as many directions as columns nothing remains: rows are turned, and count in full.
"""

from typing import NamedTuple

import numpy as np

from streamddcrp.likelihoods.columns import column_means, column_steps, column_variances, varies
from streamddcrp.likelihoods.kernels.plane import coordinates, turned
from streamddcrp.typing import FloatArray


class Plane(NamedTuple):
    """Centre and scale (D,) of columns, and orthonormal directions (Q, D) of standardised rows."""

    center: FloatArray
    scale: FloatArray
    axes: FloatArray

    @property
    def n_axes(self) -> int:
        """Number of directions Q."""
        return len(self.axes)

    def apply(self, X: FloatArray) -> FloatArray:
        """Return coordinates and remainders (N, Q + D) of rows (N, D); NaN is a missing value."""
        out = np.empty((len(X), self.n_axes + X.shape[1]))
        coordinates(self.center, self.scale, self.axes, np.ascontiguousarray(X), out)
        return out

    def inverse(self, images: FloatArray) -> FloatArray:
        """Return the rows (N, D) of coordinates and remainders (N, Q + D)."""
        Q = self.n_axes
        return self.center + images[:, Q:] + self.scale * (images[:, :Q] @ self.axes)

    def variances(self, images: FloatArray) -> FloatArray:
        """Return variances (N, D) of columns from those (N, Q + D) of coordinates, remainders."""
        Q = self.n_axes
        return np.asarray(images[:, Q:] + self.scale**2 * (images[:, :Q] @ self.axes**2))

    def steps(self, step: FloatArray) -> FloatArray:
        """Return the rounding steps of images (Q + D,): variances h^2 / 12 of cells add up."""
        along = np.sqrt((self.axes * step / self.scale) ** 2 @ np.ones(len(step)))
        return np.concatenate([along, step])

    def log_slopes(self, X: FloatArray) -> FloatArray | None:
        """Return what densities of images lack: nothing, as they count in part."""
        return None

    def usual(self, view: FloatArray) -> FloatArray:
        """Return the expected surprise (D,) of columns from that of images (Q + D,)."""
        return view[self.n_axes :]


class Turn:
    """Coordinates z = A (x - center), as many as columns; ``scale`` (D,): their deviations."""

    n_axes = 0  # columns that images have more

    def __init__(self, center: FloatArray, scale: FloatArray, axes: FloatArray) -> None:
        self.center, self.axes, self._back = center, axes, np.linalg.inv(axes)
        self._precision = (axes.T / scale**2) @ axes
        self._log_det = float(np.linalg.slogdet(axes)[1])

    def apply(self, X: FloatArray) -> FloatArray:
        """Return coordinates (N, D) of rows (N, D), NaN being a missing value; see `turned`."""
        return self._turned(X)[0]

    def _turned(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        D = len(self.center)
        out, work, logs = np.empty((len(X), D)), np.empty((D + 1, D + 1)), np.empty(len(X))
        turned(self.center, self.axes, self._precision, np.ascontiguousarray(X), work, out, logs)
        return out, logs

    def inverse(self, images: FloatArray) -> FloatArray:
        """Return the rows (N, D) of coordinates (N, D)."""
        return self.center + images @ self._back.T

    def variances(self, images: FloatArray) -> FloatArray:
        """Return variances (N, D) of columns from those (N, D) of coordinates."""
        return np.asarray(images @ (self._back**2).T)

    def log_slopes(self, X: FloatArray) -> FloatArray:
        """Return log|A|, less the log density at their mode of values that are missing, (N,)."""
        missing = np.isnan(X)
        if not missing.any():
            return np.full(len(X), self._log_det)
        return np.where(missing.all(axis=1), 0.0, self._log_det - self._turned(X)[1])

    def usual(self, view: FloatArray) -> FloatArray:
        """Return half the expected square of columns (D,): one left out is at its mode."""
        return np.full(len(view), 0.5)


def find_plane(X: FloatArray) -> Plane | None:
    """Return the directions that the columns of first rows (N, D) share; None if there are none.

    They are the principal components with more variance than the largest of N rows of independent
    columns has in the limit, (1 + sqrt(D / N))^2 (Marchenko and Pastur, Sbornik 1, 1967).
    """
    center = column_means(X)
    live = np.array([varies(column) for column in X.T])
    scale = np.sqrt(column_variances(X) + column_steps(X) ** 2 / 12.0)
    Z = np.where(np.isnan(X), 0.0, (X - center) / scale) * live
    values, vectors = np.linalg.eigh(Z.T @ Z / len(Z))
    axes = vectors[:, values > (1.0 + np.sqrt(live.sum() / len(Z))) ** 2].T[::-1]
    return Plane(center, scale, np.ascontiguousarray(axes)) if len(axes) else None
