"""Gaussian features, independent or correlated."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy
from numpy.random import Generator
from numpy.typing import ArrayLike

from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.likelihoods import columns as col
from streamddcrp.likelihoods.base import Likelihood, lacking
from streamddcrp.likelihoods.kernels import families
from streamddcrp.likelihoods.kernels.special import factor_packed
from streamddcrp.likelihoods.plane import find_plane
from streamddcrp.likelihoods.registry import family
from streamddcrp.likelihoods.warp import Warp, find_warp, log_slopes
from streamddcrp.typing import FloatArray, IntArray

MOST_WARPED = 3  # columns; with more, correlations matter more than shapes


@family("normal_gamma")
@dataclass(frozen=True)
class NormalGamma(Likelihood):
    """Independent Gaussian features with a Normal-Gamma prior.

    For each feature, precision ~ Gamma(shape, rate) and mu ~ N(mean, 1 / (kappa precision)).
    Missing values are integrated out. O(D) time and memory per row and table. Point estimates:
    ``mean``, the posterior mean of mu, and ``sd``, E[precision]^-1/2.

    A rounded value stands for an unknown one, uniform in a cell of width ``step`` around it.
    Otherwise the density of a table at one grid value would grow without limit. With q(u) uniform
    on the cell, every squared distance gains step^2 / 12, and the bound remains valid; densities
    are per volume of the row's cell.

    Parameters
    ----------
    mean : float or sequence of float, length D
        Prior mean. Sums are taken about it, so it should be near the data. From rows: the columns'
        means.
    kappa : float or sequence of float, default 0.05
        Weight of the prior mean, in rows.
    shape, rate : float or sequence of float
        Prior of the precision, with expectation shape / rate. From rows: a rate for which tables
        are expected to be narrow, 5 % of a column's variance.
    step : float or sequence of float
        Resolution of the values, 0 for none. From rows: if at least a tenth of a column's values
        repeat, the median distance from a value to its nearest other one.
    power : float or sequence of float, default 1
        Weight of a row in a column: below 1 for successive rows that are redundant. Densities and
        bounds are then those of a composite likelihood.
    warp : sequence, length D, optional
        For each column None, or the numbers of a `streamddcrp.likelihoods.warp.Warp` that makes it
        Gaussian. Mean and rate refer to its images, densities to the original values.
    share : float or sequence of float, default 1
        Weight of a column, including its prior: below 1 for redundant columns.
    plane : array_like of float, shape (2 + Q, D), optional
        Centre, scale and Q orthonormal directions of a `streamddcrp.likelihoods.plane.Plane` in
        which rows are learned; the other parameters then have Q + D columns.

    Examples
    --------
    >>> family = NormalGamma(0.0, 0.5, 2.0, 1.0)
    >>> stats = family.suffstats([[0.3], [-1.2], [0.5], [2.0], [-0.9]]).sum(axis=0)
    >>> float(family.log_marginal(stats)[0])
    -9.85152041
    """

    mean: Any = None
    kappa: Any = 0.05
    shape: Any = 1.5
    rate: Any = None
    step: Any = None
    power: Any = 1.0
    warp: Any = None
    share: Any = 1.0
    plane: Any = None

    family: ClassVar[int] = families.NORMAL_GAMMA
    _columns: ClassVar[tuple[str, ...]] = (
        "mean", "kappa", "shape", "rate", "step", "power", "share",
    )  # fmt: skip
    _from_rows: ClassVar[tuple[str, ...]] = ("mean", "rate", "step")
    _optional: ClassVar[tuple[str, ...]] = ("step",)
    _spread: ClassVar[str | None] = "rate"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.warp is not None:
            object.__setattr__(self, "warp", _checked_warp(self.warp))
            col.common_width("NormalGamma", mean=self.mean, warp=self.warp)
        if self.plane is not None:
            object.__setattr__(self, "plane", _checked_plane(self.plane))

    def _scale(self, X: FloatArray) -> dict[str, Any]:
        rows = self.prepare(X)[0]
        rate = np.multiply(self.shape, col.TABLE_VARIANCE * col.column_variances(rows))
        step = (
            col.column_cells(X) if self._plane is None else self._plane.steps(col.column_cells(X))
        )
        return {"mean": col.column_means(rows), "rate": rate, "step": step}

    def tempered(self, X: FloatArray, names: Sequence[str] | None = None) -> Self:
        share, power = col.column_shares(X), col.column_powers(X)
        free = self.mean is self.rate is self.warp is None and X.shape[1] > MOST_WARPED
        plane = find_plane(X) if (share < 1.0).any() and free else None
        if plane is None:
            return replace(self, power=power, share=share)
        return replace(
            self,
            power=np.append(1.0 - plane.axes**2 @ (1.0 - power), power),  # exactly 1 for 1
            share=np.append(np.ones(plane.n_axes), np.where(share < 1.0, 1.0 / len(power), 1.0)),
            step=None if self.step is None else plane.steps(col.columns(self.step, len(power))),
            plane=[plane.center, plane.scale, *plane.axes],
        )

    def unscaled(self) -> Self:
        return replace(super().unscaled(), power=1.0, warp=None, share=1.0, plane=None)

    def on_grid(self, X: FloatArray) -> Self:
        return self if self.step is not None else replace(self, step=col.column_cells(X))

    def warped(self, X: FloatArray) -> Self:
        if X.shape[1] > MOST_WARPED:
            return self
        cells = col.column_cells(X) if self.step is None else col.columns(self.step, X.shape[1])
        maps = [find_warp(x, step) for x, step in zip(X.T, cells, strict=True)]
        # the cells of a map's images have different widths; their mean square counts
        spread = np.exp(2.0 * log_slopes(maps, X)).mean(axis=0)
        step = np.where([one is None for one in maps], cells, cells * np.sqrt(spread))
        return replace(self, warp=maps, step=step) if any(maps) else self

    def remarks(self, names: Sequence[str]) -> list[str]:
        said, n, width = [], len(names), self._row_length(len(names))
        step, power, share = (
            col.columns(v or 0.0, width) for v in (self.step, self.power, self.share)
        )
        at_rest = np.isclose(step**2 / 12.0, col.columns(self.rate, width) / self.shape)
        for j, (name, warp) in enumerate(zip(names, self.warp or [None] * n, strict=True)):
            h, resting = step[width - n + j], at_rest[width - n + j]
            if warp is not None:
                shape = "has heavy tails" if warp.tail else "is skewed"
                said.append(f"{name!r} {shape}: it is learned {warp}")
            elif h > 0.0 and not resting:
                said.append(
                    f"{name!r} is rounded to steps of {h:g}: each value is treated as an interval"
                )
        if (power * share < 1.0).any():
            said.append(col.repeats(float(power @ share), len(names)))
        if self._plane is not None:
            said.append(
                f"{len(names)} columns move together: they are learned as {self._plane.n_axes} "
                "weighted sums of columns, and the remainder counts as one column"
            )
        return said

    def n_stats(self, n_features: int) -> int:
        return super().n_stats(self._row_length(n_features))

    def _row_length(self, n_features: int) -> int:
        return n_features if self._plane is None else self._plane.n_axes + n_features

    def _spread_of(self, X: FloatArray) -> FloatArray:
        return self.prepare(X)[0]

    def _prior(self, n_features: int) -> FloatArray:
        prior = np.empty((8, self._row_length(n_features)))
        center, mean, kappa, shape, rate, cell, power, share = prior
        center[:] = mean[:] = self.mean
        kappa[:], shape[:], rate[:] = self.kappa, self.shape, self.rate
        cell[:] = self.step or 0.0
        cell[:] = cell**2 / 12.0
        power[:], share[:] = self.power, self.share
        return prior.ravel()

    def sample(self, rng: Generator, stats: ArrayLike, size: int | None = None) -> FloatArray:
        _, hyper, post = self._posteriors(stats)
        width = int(hyper[0])
        mean, kappa, shape, rate = post[0, 1:].reshape(width, 8)[:, :4].T
        precision = rng.gamma(shape, 1.0 / rate)
        mu = hyper[1 : 1 + width] + rng.normal(mean, 1.0 / np.sqrt(kappa * precision))
        sd = 1.0 / np.sqrt(precision)
        rows = rng.normal(mu, sd, size=(width,) if size is None else (size, width))
        if self._plane is not None:
            rows = self._plane.inverse(np.atleast_2d(rows)).reshape((*rows.shape[:-1], -1))
        for d, warp in enumerate(self.warp or ()):
            if warp is not None:
                rows[..., d] = warp.inverse(rows[..., d])
        return rows

    def point_estimates(self, stats: ArrayLike) -> dict[str, FloatArray]:
        _, hyper, post = self._posteriors(stats)
        width = int(hyper[0])
        cells = post[:, 1:].reshape(-1, width, 8)
        mean, sd = self._as_given(
            hyper[1 : 1 + width] + cells[:, :, 0], cells[:, :, 3] / cells[:, :, 2]
        )
        return {"mean": mean, "sd": sd}

    def _quantiles(self, stats: ArrayLike, p: FloatArray) -> dict[str, FloatArray]:
        if self._plane is not None or any(self.warp or ()):
            return {}
        _, hyper, post = self._posteriors(stats)
        width = int(hyper[0])
        cells = np.moveaxis(post[:, 1:].reshape(-1, width, 8, 1), 2, 0)
        mean = hyper[1 : 1 + width, None] + cells[0]
        return _normal_quantiles(mean, cells[1], cells[2], cells[3], p)

    def _as_given(self, mean: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return columns' means and standard deviations (K, D) from those of their images."""
        if self._plane is not None:
            mean, variance = self._plane.inverse(mean), self._plane.variances(variance)
        sd = np.sqrt(variance)
        for d, warp in enumerate(self.warp or ()):
            if warp is not None:  # the median, and the first-order spread about it
                mean[:, d] = warp.inverse(mean[:, d])
                sd[:, d] *= np.exp(-warp.apply(mean[:, d])[1])
        return mean, sd

    def in_units(self, view: FloatArray, n_features: int) -> FloatArray:
        mean, sd = self._as_given(view[:1], view[1:2])
        return np.concatenate([mean, sd, view[2:, len(view[2]) - n_features :]])


def _checked_plane(value: Any) -> tuple[tuple[float, ...], ...]:
    plane = col.as_array("NormalGamma", "plane", value)
    fine = plane.ndim == 2 and len(plane) > 2 and plane.shape[1] > 0 and (plane[1] > 0.0).all()
    if not fine or not np.allclose(plane[2:] @ plane[2:].T, np.eye(len(plane) - 2), atol=1e-6):
        raise ConfigError(
            "NormalGamma: plane must hold a centre, a positive scale and one or more orthonormal "
            f"directions, each of one number for each column; got {value!r}"
        )
    return tuple(tuple(row) for row in plane.tolist())


def _checked_warp(value: Any) -> tuple[Warp | None, ...]:
    try:
        maps = tuple(None if one is None else Warp._make(map(float, one)) for one in value)
    except (TypeError, ValueError):
        maps = ()
    known = [warp for warp in maps if warp is not None]
    fine = all(
        np.isfinite(warp).all() and min(warp.scale, warp.offset) > 0.0 <= warp.tail
        for warp in known
    )
    if not maps or not fine or not {warp.side for warp in known} <= {-1.0, 0.0, 1.0}:
        raise ConfigError(
            f"NormalGamma: warp must be None or the {len(Warp._fields)} numbers of a Warp for each "
            f"column, got {value!r}"
        )
    return maps


@family("normal_wishart")
@dataclass(frozen=True)
class NormalWishart(Likelihood):
    """Gaussian rows with a Normal-Wishart prior on mean and precision matrix.

    Lambda ~ W(scatter^-1, dof) and mu | Lambda ~ N(mean, (kappa Lambda)^-1). A missing value is
    replaced by the prior mean, or in `SeqDDCRP` by the most likely table's expectation;
    `NormalGamma` integrates it out. O(D^2) time per row and table, O(D^3) when a table's posterior
    is updated, O(D^2) memory per table. Point estimates: ``mean``, the posterior mean of mu, and
    ``sd``, standard deviations of E[Lambda]^-1.

    Parameters
    ----------
    mean, kappa
        As for `NormalGamma`, with one ``kappa`` for all columns.
    scatter : float or array_like of float, shape (D, D)
        Inverse scale matrix, symmetric positive definite; a number stands for a multiple of the
        identity. The expected precision is dof * scatter^-1. From rows: a diagonal matrix for which
        tables are expected to be narrow, 5 % of a column's variance.
    dof : float
        Degrees of freedom, above D - 1. From rows: D + 2.

    Examples
    --------
    >>> family = NormalWishart(0.0, 0.1, [[2.0]], 3.0)
    >>> stats = family.suffstats([[0.3], [-0.2], [0.1]]).sum(axis=0)
    >>> float(family.log_marginal(stats)[0])
    -3.84471234
    """

    mean: Any = None
    kappa: Any = 0.05
    scatter: Any = None
    dof: Any = None

    family: ClassVar[int] = families.NORMAL_WISHART
    _columns: ClassVar[tuple[str, ...]] = ("mean",)
    _from_rows: ClassVar[tuple[str, ...]] = ("mean", "scatter", "dof")
    _spread: ClassVar[str | None] = "scatter"

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "kappa", col.scalar_parameter("NormalWishart", "kappa", self.kappa)
        )
        if self.scatter is not None:
            object.__setattr__(self, "scatter", _checked_scatter(self.scatter))
        if self.dof is not None:
            object.__setattr__(self, "dof", col.scalar_parameter("NormalWishart", "dof", self.dof))
        super().__post_init__()
        width = self.n_features
        if width is not None and self.dof is not None and self.dof <= width - 1:
            raise ConfigError(
                f"NormalWishart: dof must exceed the number of features less one, {width - 1}; "
                f"got {self.dof}"
            )

    @property
    def n_features(self) -> int | None:
        return col.common_width("NormalWishart", mean=self.mean, scatter=self.scatter)

    def _scale(self, X: FloatArray) -> dict[str, Any]:
        D = X.shape[1]
        dof = D + 2.0 if self.dof is None else self.dof
        # each feature as in NormalGamma, with shape (dof - D + 1) / 2
        spread = (dof - D + 1.0) * col.TABLE_VARIANCE * col.column_variances(X)
        return {"mean": col.column_means(X), "scatter": np.diag(spread), "dof": dof}

    def _spread_times(self, factors: FloatArray) -> FloatArray:
        matrix: FloatArray = self._scatter(len(factors)) * np.sqrt(np.outer(factors, factors))
        return matrix

    def _scatter(self, D: int) -> FloatArray:
        given = isinstance(self.scatter, tuple)
        return np.array(self.scatter) if given else np.eye(D) * self.scatter

    def _prior(self, n_features: int) -> FloatArray:
        if self.dof <= n_features - 1:
            raise SchemaError(
                f"NormalWishart: dof {self.dof} is too small for {n_features} features; "
                f"it must exceed {n_features - 1}"
            )
        D = n_features
        mean = col.columns(self.mean, D)
        packed = self._scatter(D)[np.tril_indices(D)]
        factor = packed.copy()
        log_det = factor_packed(D, np.zeros(D), 0, factor, 0)
        diagonal = factor[np.cumsum(np.arange(1, D + 1)) - 1]
        pivots = diagonal**2 * (1.0 - 1e-14)  # a floor must not touch the prior itself
        return np.concatenate([[self.kappa, self.dof, log_det], mean, mean, pivots, packed])

    def prepare(
        self, X: FloatArray, past: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray | None]:
        return X.copy() if np.isnan(X).any() else X, None  # a model may fill what is missing

    def without(self, x: FloatArray, at: IntArray, past: FloatArray | None = None) -> FloatArray:
        return lacking(x, at)

    def sample(self, rng: Generator, stats: ArrayLike, size: int | None = None) -> FloatArray:
        D, hyper, post = self._posteriors(stats)
        kappa, dof = post[0, 1], post[0, 2]
        mean, root = self._mean_and_root(D, hyper, post[0])
        # Bartlett: Lambda = B B' with B = root' A, A lower triangular
        A = np.tril(rng.normal(size=(D, D)), -1)
        A[np.diag_indices(D)] = np.sqrt(rng.chisquare(dof - np.arange(D)))
        B = root.T @ A
        mu = mean + np.linalg.solve(B.T, rng.normal(size=D)) / np.sqrt(kappa)
        noise = np.linalg.solve(B.T, rng.normal(size=(D, 1 if size is None else size)))
        rows = mu + noise.T
        return rows[0] if size is None else np.ascontiguousarray(rows)

    def point_estimates(self, stats: ArrayLike) -> dict[str, FloatArray]:
        D, hyper, post = self._posteriors(stats)
        mean, sd = np.empty((2, len(post), D))
        for k in range(len(post)):
            mean[k], root = self._mean_and_root(D, hyper, post[k])
            factor = np.linalg.inv(root)
            sd[k] = np.sqrt((factor**2).sum(axis=1) / post[k, 2])
        return {"mean": mean, "sd": sd}

    def _quantiles(self, stats: ArrayLike, p: FloatArray) -> dict[str, FloatArray]:
        D, hyper, post = self._posteriors(stats)
        found = [self._mean_and_root(D, hyper, one) for one in post]
        mean = np.array([one for one, _ in found])[..., None]
        rate = np.array([0.5 * (np.linalg.inv(root) ** 2).sum(axis=1) for _, root in found])
        kappa, shape = post[:, 1, None, None], 0.5 * (post[:, 2, None, None] - D + 1.0)
        return _normal_quantiles(mean, kappa, shape, rate[..., None], p)

    def _mean_and_root(
        self, n_features: int, hyper: FloatArray, post: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the posterior mean (D,) and the inverse Cholesky factor of the scatter (D, D)."""
        D = n_features
        root = np.zeros((D, D))
        root[np.tril_indices(D)] = post[6 + D :]
        return hyper[4 : 4 + D] + post[6 : 6 + D], root


def _normal_quantiles(
    mean: FloatArray, kappa: FloatArray, shape: FloatArray, rate: FloatArray, p: FloatArray
) -> dict[str, FloatArray]:
    """Return quantiles for precision ~ Gamma(shape, rate) and a mean with kappa times it."""
    t = scipy.special.stdtrit(2.0 * shape, p) * np.sqrt(rate / (shape * kappa))
    return {"mean": mean + t, "sd": np.sqrt(rate / scipy.special.gammaincinv(shape, 1.0 - p))}


def _checked_scatter(value: Any) -> float | tuple[tuple[float, ...], ...]:
    matrix = col.as_array("NormalWishart", "scatter", value)
    if matrix.ndim == 0:
        return col.scalar_parameter("NormalWishart", "scatter", value)
    fine = matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1] and matrix.size > 0
    if fine and np.allclose(matrix, matrix.T, rtol=1e-10, atol=0.0):
        with suppress(np.linalg.LinAlgError):  # if it is not positive definite
            np.linalg.cholesky(matrix)
            return tuple(map(tuple, matrix.tolist()))
    raise ConfigError(
        "NormalWishart: scatter must be a positive number or a symmetric, positive definite "
        f"matrix, got {value!r}"
    )
