"""Draws from the posterior of a ddCRP mixture."""

from typing import Any

import numpy as np
from numpy.random import Generator
from tqdm import tqdm

from streamddcrp.compilation import compiled
from streamddcrp.data import as_observations, as_times
from streamddcrp.decay import make_decay
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.likelihoods import Likelihood, make_likelihood
from streamddcrp.models.ddcrp.chain import Chain
from streamddcrp.models.ddcrp.distances import Distances
from streamddcrp.models.ddcrp.hyper import Griddy, HyperGrid, decay_parameter, make_grid
from streamddcrp.models.ddcrp.kernels.parameters import draw_with_parameters
from streamddcrp.models.ddcrp.kernels.sweep import draw
from streamddcrp.models.ddcrp.parameters import make_chain
from streamddcrp.models.ddcrp.samples import DDCRPSamples
from streamddcrp.typing import ArrayLike

_CROWD = 10_000_000  # links above which a sweep with everybody alone takes too long

_AT_ONCE = 200_000  # updates between two looks at the progress bar


def sample_ddcrp(
    X: ArrayLike,
    likelihood: Likelihood | tuple[Any, ...],
    *,
    alpha: float,
    decay: object,
    distances: Distances | None = None,
    t: ArrayLike | None = None,
    sequential: bool = True,
    n_sweeps: int = 1000,
    burn_in: int = 200,
    thin: int = 1,
    n_chains: int = 4,
    parameters: str = "collapsed",
    hyper: str | HyperGrid | None = None,
    seed: int | None = None,
    progress: bool = False,
) -> DDCRPSamples:
    """Sample the links of a ddCRP mixture from their posterior, by Gibbs.

    Parameters
    ----------
    X : array_like of float, shape (N, D)
        Observations; in arrival order if links are sequential. A masked array marks missing values.
    likelihood : Likelihood or tuple
        Conjugate family, e.g. ``NormalWishart(mean, kappa, scatter, dof)``.
    alpha : float
        Weight of a self-link against the decay weights of links to others.
    decay : Decay, tuple, str or callable
        E.g. ``("exponential", 8.0)``, ``"none"`` (the CRP), ``Exponential(50) * Window(200)``.
    distances : Distances, optional
        Default: the difference of arrival indices, or of ``t``.
    t : array_like, shape (N,), optional
        Times, instead of ``distances``; not decreasing if links are sequential.
    sequential : bool, default True
        Whether customers link to earlier ones only. ``distances`` have their own rule.
    n_sweeps : int, default 1000
        Sweeps of each chain after the burn-in. A sweep draws every link once.
    burn_in : int, default 200
        Sweeps before the first draw. A chain starts with everybody at a table alone: joining whole
        subtrees is easy for it, parting a table that a seating in order has mixed up is not. With
        more than ten million links to choose from the rows are seated in order first, all the same.
    thin : int, default 1
        Sweeps for each draw that is kept.
    n_chains : int, default 4
        Chains, one after the other, with seeds of their own.
    parameters : {"collapsed", "partial", "auxiliary", "per-customer"}, default "collapsed"
        Integrate the parameters of tables out, or carry them along, which mixes more slowly: for
        comparison, see `ParameterChain`.
    hyper : {"alpha", "decay", "both"} or HyperGrid, optional
        Draw alpha, the decay's parameter or both after each sweep, from a default grid about the
        values given or from one of yours. Default: both stay.
    seed : int, optional
    progress : bool, default False
        Show a progress bar.

    Returns
    -------
    DDCRPSamples

    Raises
    ------
    ConfigError
        An option is out of range.
    SchemaError
        A value is not finite or outside the family's support, or the distances are for another
        number of rows; the message names row and column.
    OrderError
        Sequential times run backwards.

    Notes
    -----
    A sweep costs O(N (W + P + K L)), see the package; drawn links take 8 bytes a customer and
    draw. Equal seeds give equal bits.

    Examples
    --------
    >>> import numpy as np
    >>> from streamddcrp import sample_ddcrp
    >>> from streamddcrp.likelihoods import NormalGamma
    >>> X = [[0.3], [-0.2], [4.1], [0.1], [3.8], [4.4]]
    >>> family = NormalGamma(0.0, 0.1, 1.5, 1.0)
    >>> samples = sample_ddcrp(X, family, alpha=0.5, decay=("exponential", 5.0), seed=0)
    >>> together = samples.labels[:, :, None] == samples.labels[:, None, :]
    >>> np.round(together.mean(axis=0)[2], 1)  # who sits with the third customer
    array([0. , 0. , 1. , 0.1, 0.9, 0.9])
    """
    _check_whole("n_sweeps", n_sweeps, 1)
    _check_whole("burn_in", burn_in, 0)
    _check_whole("thin", thin, 1)
    _check_whole("n_chains", n_chains, 1)
    if thin > n_sweeps:
        message = f"thin is {thin}, more than n_sweeps, {n_sweeps}: no draw would be kept"
        raise ConfigError(message)
    rows = as_observations(X)
    family = make_likelihood(likelihood)
    family.check_rows(rows)
    family = family.scaled(rows)
    prior = family.hyper(rows.shape[1])
    rows, _ = family.prepare(rows)
    law = make_decay(decay)
    apart = _distances(distances, t, sequential, len(rows))
    griddy = None
    start = apart.candidates(law, alpha), float(alpha), decay_parameter(law)
    if hyper is not None:
        griddy = Griddy(make_grid(hyper, alpha, law), apart, law, alpha)
        start = griddy.start()
    with compiled(draw if parameters == "collapsed" else draw_with_parameters) as needed:
        if needed:
            one = Distances.by_index(1).candidates(law, alpha)
            first = make_chain(rows[:1], family.family, prior, one, parameters)
            first.forward(np.random.default_rng(0))
    n, n_kept = len(rows), n_sweeps // thin
    size = n_chains * n_kept
    out = DDCRPSamples(
        links=np.empty((size, n), np.int32),
        labels=np.empty((size, n), np.int32),
        chain=np.repeat(np.arange(n_chains), n_kept),
        n_tables=np.empty(size, np.int64),
        log_joint=np.empty(size),
        alpha=np.full(size, start[1]),
        decay_parameter=np.full(size, start[2]),
        likelihood=family,
        decay=law,
    )
    generators = np.random.default_rng(seed).spawn(n_chains)
    with tqdm(
        total=n_chains * (burn_in + n_kept * thin), unit=" sweeps", disable=not progress
    ) as bar:
        for number, rng in enumerate(generators):
            chain = make_chain(rows, family.family, prior, start[0], parameters)
            if start[0].n_links > _CROWD:
                chain.forward(rng)
            kept = slice(number * n_kept, (number + 1) * n_kept)
            if griddy is None:
                _sample(chain, rng, burn_in, thin, out, kept, bar)
            else:
                _sample_with_hyper(chain, rng, griddy, burn_in, thin, out, kept, bar)
            bar.set_postfix(chain=number + 1, tables=chain.n_tables, refresh=False)
    return out


def _check_whole(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        message = f"{name} must be a whole number >= {least}, got {value!r}"
        raise ConfigError(message)


def _distances(
    distances: Distances | None, t: ArrayLike | None, sequential: bool, n: int
) -> Distances:
    if distances is None:
        if t is None:
            return Distances.by_index(n, sequential=sequential)
        return Distances.by_time(as_times(t, n), sequential=sequential)
    if not isinstance(distances, Distances):
        message = (
            f"distances: expected one of Distances.by_index, by_time, by_covariates, by_hops, "
            f"by_matrix, by_function; got {type(distances).__name__}"
        )
        raise ConfigError(message)
    if t is not None:
        message = "give t or distances, not both: Distances.by_time(t) are distances"
        raise ConfigError(message)
    if distances.n != n:
        message = f"distances: of {distances.n} customers, but X has {n} rows; both must agree"
        raise SchemaError(message)
    return distances


def _sample(
    chain: Chain, rng: Generator, burn_in: int, thin: int, out: DDCRPSamples, kept: slice, bar: Any
) -> None:
    """Fill the rows ``kept`` of the output, many sweeps a call."""
    step = max(1, _AT_ONCE // out.links.shape[1])
    for first in range(0, burn_in, step):
        some = min(step, burn_in - first)
        chain.sweep(rng, some)
        bar.update(some)
    step = max(1, step // thin)
    for first in range(kept.start, kept.stop, step):
        rows = slice(first, min(first + step, kept.stop))
        _write(chain, rng, thin, out, rows)
        bar.update((rows.stop - rows.start) * thin)


def _sample_with_hyper(
    chain: Chain,
    rng: Generator,
    griddy: Griddy,
    burn_in: int,
    thin: int,
    out: DDCRPSamples,
    kept: slice,
    bar: Any,
) -> None:
    """Fill the rows ``kept`` of the output, with a move of alpha and decay after each sweep."""
    for sweep in range(-burn_in, (kept.stop - kept.start) * thin):
        chain.sweep(rng)
        alpha, parameter = griddy.move(chain, rng)
        bar.update()
        if sweep >= 0 and (sweep + 1) % thin == 0:
            row = kept.start + sweep // thin
            _write(chain, rng, 0, out, slice(row, row + 1))
            out.alpha[row], out.decay_parameter[row] = alpha, parameter


def _write(chain: Chain, rng: Generator, thin: int, out: DDCRPSamples, rows: slice) -> None:
    chain.draw(
        rng, thin, out.links[rows], out.labels[rows], out.n_tables[rows], out.log_joint[rows]
    )
