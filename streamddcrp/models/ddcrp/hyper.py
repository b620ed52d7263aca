"""Griddy Gibbs: the weight of self-links and the parameter of the decay, drawn from a grid."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from streamddcrp.decay import Decay, Exponential, LinearWindow, Logistic, Window
from streamddcrp.decay.base import finite
from streamddcrp.errors import ConfigError
from streamddcrp.models.ddcrp.candidates import Candidates, checked_alpha
from streamddcrp.models.ddcrp.chain import Chain
from streamddcrp.models.ddcrp.distances import Distances
from streamddcrp.models.ddcrp.kernels.hyper import link_term, partition_term
from streamddcrp.typing import FloatArray

PARAMETER: dict[type[Decay], str] = {
    Window: "width", Exponential: "scale", Logistic: "location", LinearWindow: "width",
}  # fmt: skip
FORMS = ("partition", "links")


def decay_parameter(decay: Decay) -> float:
    """Return the width, scale or location of a decay, NaN where it has none of these."""
    name = PARAMETER.get(type(decay))
    return float("nan") if name is None else float(getattr(decay, name))


@dataclass(frozen=True, slots=True)
class HyperGrid:
    """Values among which alpha and the decay's parameter are drawn after each sweep.

    The prior is flat over the values: space them as you believe in them.

    Parameters
    ----------
    alpha : sequence of float, optional
        Values of the weight of a self-link. Default: it stays as it is.
    decay : sequence of float, optional
        Values of the decay's parameter: the width of a window, the scale of an exponential, the
        location of a logistic decay. Default: it stays as it is.
    form : {"partition", "links"}, optional
        Draw the decay given the tables, with the links summed over and then drawn anew, or given
        the links. Given its links, a window can never become shorter than the longest of them. Only
        sequential links can be summed over. Default: "partition" where links are sequential.

    Examples
    --------
    >>> HyperGrid(alpha=(0.3, 1.0), decay=(5.0, 10.0, 20.0))
    HyperGrid(alpha=(0.3, 1.0), decay=(5.0, 10.0, 20.0), form=None)
    """

    alpha: Sequence[float] | None = None
    decay: Sequence[float] | None = None
    form: str | None = None

    def __post_init__(self) -> None:
        if self.alpha is None and self.decay is None:
            message = "HyperGrid: needs values of alpha, of the decay's parameter, or of both"
            raise ConfigError(message)
        for name, check in (("alpha", checked_alpha), ("decay", _number)):
            values = getattr(self, name)
            if values is not None:
                object.__setattr__(self, name, tuple(check(value) for value in values))
                if len(values) == 0:
                    message = f"HyperGrid: {name} has no values"
                    raise ConfigError(message)
        if self.form not in {None, *FORMS}:
            message = f"HyperGrid: form must be one of {FORMS} or None, got {self.form!r}"
            raise ConfigError(message)


def make_grid(spec: object, alpha: float, decay: Decay) -> HyperGrid:
    """Return the grid that an option describes.

    Parameters
    ----------
    spec : {"alpha", "decay", "both"} or HyperGrid
        By name: nine values, from a sixteenth to sixteen times ``alpha``, from a quarter to four
        times the decay's parameter.
    alpha : float
    decay : Decay
    """
    if isinstance(spec, HyperGrid):
        return spec
    if not isinstance(spec, str) or spec not in {"alpha", "decay", "both"}:
        message = f"hyper must be 'alpha', 'decay', 'both' or a HyperGrid, got {spec!r}"
        raise ConfigError(message)
    powers = 2.0 ** np.arange(-4, 5)
    middle = decay_parameter(decay)
    if spec != "alpha" and not middle > 0.0:
        message = (
            f"hyper={spec!r}: {decay!r} has no positive parameter to spread a grid about; choose "
            f"hyper='alpha', another decay, or HyperGrid with values of your own"
        )
        raise ConfigError(message)
    return HyperGrid(
        alpha=None if spec == "decay" else (checked_alpha(alpha) * powers).tolist(),
        decay=None if spec == "alpha" else (middle * np.sqrt(powers)).tolist(),
    )


class Griddy:
    """The moves over a grid of A values of alpha and B decays, for one model.

    With n self-links and S_i = alpha + F_i(f), log p(alpha, f | ...) is, up to a constant,

        given links:   n log alpha + sum_i log f(d_{i c_i}) - sum_i log S_i
        given tables:  n log alpha + sum_i log sum_{j < i, z_j = z_i} f(d_ij) - sum_i log S_i

    with the first two sums over customers that are not self-linked. A move costs O(B N W), or O(N)
    where only alpha varies; memory: the candidates of all B decays.

    Parameters
    ----------
    grid : HyperGrid
    distances : Distances
    decay : Decay
    alpha : float
    """

    def __init__(self, grid: HyperGrid, distances: Distances, decay: Decay, alpha: float) -> None:
        self._alphas = np.array([alpha] if grid.alpha is None else grid.alpha, dtype=np.float64)
        decays = [decay] if grid.decay is None else [_with(decay, value) for value in grid.decay]
        self._parameters = [decay_parameter(d) for d in decays]
        least = float(self._alphas.min())  # the same links at every alpha
        self._candidates = [distances.candidates(d, least) for d in decays]
        log_alpha = np.log(self._alphas)[:, None]
        self._log_total = np.column_stack(
            [np.logaddexp(log_alpha, c.log_mass).sum(axis=1) for c in self._candidates]
        )
        form = grid.form or ("partition" if distances.sequential else "links")
        self._partition = form == "partition" and len(decays) > 1
        self._nearest = (
            _nearest(self._alphas.tolist(), alpha),
            _nearest(self._parameters, decay_parameter(decay)) if len(decays) > 1 else 0,
        )
        if form == "partition" and not distances.sequential:
            message = "HyperGrid: form='partition' is for sequential links; take form='links'"
            raise ConfigError(message)

    def start(self) -> tuple[Candidates, float, float]:
        """Return the links at the grid values nearest to what was given, and these values."""
        a, b = self._nearest
        return self._at(a, b)

    def log_probs(self, chain: Chain) -> FloatArray:
        """Return log p(alpha, f | tables or links) on the grid, (A, B), up to a constant."""
        links, labels = chain.links, chain.labels
        if len(self._candidates) == 1:
            term = [0.0]
        elif self._partition:
            term = [
                partition_term(c.shared, c.start, c.customer, c.weight, c.log_scale, labels)
                for c in self._candidates
            ]
        else:
            term = [
                link_term(c.shared, c.start, c.customer, c.weight, c.log_scale, links)
                for c in self._candidates
            ]
        n_self = int((links == np.arange(len(links))).sum())
        return np.asarray(n_self * np.log(self._alphas)[:, None] + term - self._log_total)

    def move(self, chain: Chain, rng: Generator) -> tuple[float, float]:
        """Draw both and put the chain under them; return alpha and the decay's parameter."""
        log_p = self.log_probs(chain)
        p = np.exp(log_p - log_p.max()).ravel()
        place = np.searchsorted(np.cumsum(p), rng.random() * p.sum(), side="right")
        a, b = np.divmod(min(int(place), p.size - 1), log_p.shape[1])
        chain.candidates, alpha, parameter = self._at(int(a), int(b))
        if self._partition:
            chain.redraw_links(rng)
        return alpha, parameter

    def _at(self, a: int, b: int) -> tuple[Candidates, float, float]:
        alpha = float(self._alphas[a])
        return self._candidates[b].with_alpha(alpha), alpha, self._parameters[b]


def _nearest(values: Sequence[float], value: float) -> int:
    return int(np.abs(np.asarray(values) - value).argmin())


def _number(value: float) -> float:
    return finite("HyperGrid", "decay", value)


def _with(decay: Decay, value: float) -> Decay:
    name = PARAMETER.get(type(decay))
    if name is None:
        message = (
            f"HyperGrid: {decay!r} has no parameter that a grid could vary; choose a window, an "
            f"exponential, a logistic or a linear window, or leave decay out of the grid"
        )
        raise ConfigError(message)
    changed: Decay = replace(decay, **{name: value})  # type: ignore[type-var]
    return changed
