"""Directions shared by many columns: correlated columns as a few coordinates and remainders.

Columns that move together are redundant, and a product of their densities counts the same evidence
many times. Rows y = (x - center) / scale are therefore learned as coordinates z = V y along the Q
principal directions of the first rows, and as remainders x - center - scale V'z, one for each
column. The coordinates are uncorrelated. Each remainder has weight 1 / D, so together they count as
one column: they contribute, but cannot outvote the coordinates.
"""

from typing import NamedTuple

import numpy as np

from streamddcrp.likelihoods.columns import column_means, column_steps, column_variances, varies
from streamddcrp.likelihoods.kernels.plane import coordinates
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
        """Return the rounding steps of images (Q + D,); cell variances h^2 / 12 add up."""
        along = np.sqrt((self.axes * step / self.scale) ** 2 @ np.ones(len(step)))
        return np.concatenate([along, step])


def find_plane(X: FloatArray) -> Plane | None:
    """Return the directions shared by columns of first rows (N, D); None without any.

    They are the principal components whose variance exceeds the limit for N rows of independent
    columns, (1 + sqrt(D / N))^2 (Marchenko and Pastur, Sbornik 1, 1967).
    """
    center = column_means(X)
    live = np.array([varies(column) for column in X.T])
    scale = np.sqrt(column_variances(X) + column_steps(X) ** 2 / 12.0)
    Z = np.where(np.isnan(X), 0.0, (X - center) / scale) * live
    values, vectors = np.linalg.eigh(Z.T @ Z / len(Z))
    axes = vectors[:, values > (1.0 + np.sqrt(live.sum() / len(Z))) ** 2].T[::-1]
    return Plane(center, scale, np.ascontiguousarray(axes)) if len(axes) else None
