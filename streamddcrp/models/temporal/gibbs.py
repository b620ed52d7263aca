"""Gibbs sampling of the infinite temporal Dirichlet-process mixture, with its scales."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamddcrp.arguments import checked
from streamddcrp.data.documents import sparse_rows
from streamddcrp.decay import DecaySpec
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.estimator.sweeps import Draws, Plan
from streamddcrp.likelihoods import LikelihoodSpec
from streamddcrp.models.temporal.batch import as_epochs, read_epochs
from streamddcrp.models.temporal.emissions import AnyEmission
from streamddcrp.models.temporal.emissions.bags import as_rows
from streamddcrp.models.temporal.emissions.conjugate import RHOS, ConjugateDecay
from streamddcrp.models.temporal.emissions.drift import GaussianDrift
from streamddcrp.models.temporal.emissions.full import FullGaussianDrift
from streamddcrp.models.temporal.emissions.text import TextDecay
from streamddcrp.models.temporal.engine import KERNELS
from streamddcrp.models.temporal.kernels import chains
from streamddcrp.models.temporal.kernels.gibbs import draw_paths, draw_seats, rejoin
from streamddcrp.models.temporal.window import Settings, count_settings
from streamddcrp.typing import FloatArray, IntArray

_NONE = np.zeros(0)


class Rows(NamedTuple):
    """Rows of all epochs in turn: numbers (N, D), or words with offsets (N + 1,)."""

    first: IntArray  # (T + 1,): first row of every epoch, and N
    X: FloatArray
    offsets: IntArray
    words: IntArray
    counts: FloatArray


class Law(NamedTuple):
    """Densities of rows and counts, in the kernels' form."""

    kind: int
    log_alpha: float
    kappa: FloatArray  # weights of the epochs before, all above zero
    noise: FloatArray = _NONE  # of Gaussian chains, (D,) each
    drift: FloatArray = _NONE
    birth_var: FloatArray = _NONE
    family: int = 0  # of conjugate ones
    hyper: FloatArray = _NONE
    rho: float = 1.0  # of these, and of words
    prior: FloatArray = _NONE  # of words, (V,), and its sum over the whole vocabulary
    prior_size: float = 0.0


class Chains(NamedTuple):
    """Chains in C slots over T epochs."""

    c: IntArray  # (N,): slot of every row, -1 if unassigned
    sizes: FloatArray  # (T, C)
    stats: FloatArray  # (T, C, P)
    fore: FloatArray  # (C, S): knowledge from the epochs before the present one
    birth: FloatArray  # (S,): the same for an unborn chain
    last: IntArray  # (C,): last epoch before it with rows; first and last later ones
    next: IntArray
    end: IntArray
    now: FloatArray  # work: statistics, knowledge, a posterior
    run: FloatArray
    post: FloatArray

    def wider(self, n: int) -> "Chains":
        """Return the chains with n more slots."""
        return self._replace(
            sizes=np.pad(self.sizes, ((0, 0), (0, n))),
            stats=np.pad(self.stats, ((0, 0), (0, n), (0, 0))),
            fore=np.concatenate([self.fore, np.tile(self.birth, (n, 1))]),
            **{name: np.pad(getattr(self, name), (0, n)) for name in ("last", "next", "end")},
        )


@dataclass(frozen=True, slots=True)
class TemporalDPMSamples(Draws):
    """Draws from the posterior of the infinite temporal mixture.

    Attributes
    ----------
    labels : list of ndarray of int32, shape (S, N_t)
        Component of every row of every epoch. A live component keeps its number between draws;
        numbers of dead ones are reused. `point_estimate` makes one partition of all epochs side by
        side.
    n_components : ndarray of int64, shape (S,)
        Components over all epochs. ``log_joint`` is log p(labels) + log p(rows | labels) given the
        scales of the draw; parameters of the components are integrated out.
    alpha : ndarray of float64, shape (S,)
    past_weights : ndarray of float64, shape (S, W)
        Weights of the 1, 2, .. epochs before.
    scales : dict of ndarray of float64, shape (S, ..)
        Of the emission: noise, drift and birth_var (S, D), or rho (S,).
    """

    _traced = ("n_components", "alpha", "past_weights", "scales")

    labels: list[NDArray[np.int32]]
    n_components: IntArray
    alpha: FloatArray
    past_weights: FloatArray
    scales: dict[str, FloatArray]


@checked
def sample_temporal_dpm(
    epochs: Iterable[Any],
    likelihood: LikelihoodSpec | AnyEmission = "auto",
    *,
    alpha: float | None = None,
    decay: DecaySpec = None,
    window: int | None = None,
    learn_scales: bool = True,
    n_chains: int = 4,
    n_sweeps: int = 500,
    burn_in: int = 500,
    thin: int = 5,
    seed: int | None = 0,
    progress: bool = False,
) -> TemporalDPMSamples:
    r"""Sample the components of all rows of all epochs, and the scales, by Gibbs sampling.

    Parameters
    ----------
    epochs, likelihood
        As for `fit_temporal_dpm`, whose initial scales are used here; not "full_gaussian", whose
        evidence has no closed form.
    alpha, decay, window
        As for `TemporalDPM`. Quantities learned there are drawn here, from an equally strong prior:
        alpha from Gamma(2, 1), the decay from a grid.
    learn_scales : bool, default True
        Also draw the scales of the emission: noise, drift and birth variance of `GaussianDrift`,
        and the forgetting rate of `ConjugateDecay` if ``forget`` is None. The prior of the words of
        `TextDecay` is fixed.
    n_chains, n_sweeps, burn_in, thin, seed, progress
        As for `sample_ddcrp`. Initially rows are seated one by one.

    Notes
    -----
    The recurrent Chinese restaurant process, with component parameters integrated out [1]_:

    .. math:: p(c) = \prod_t \frac{\Gamma(A_t)}{\Gamma(A_t + N_t)}
        \prod_{k: m'_{kt} > 0} \frac{\Gamma(m'_{kt} + m_{kt})}{\Gamma(m'_{kt})}
        \prod_{k: m'_{kt} = 0 < m_{kt}} \alpha \Gamma(m_{kt})

    with :math:`m_{kt}` rows of component k in epoch t, :math:`m'_{kt}` in earlier ones, decayed,
    and :math:`A_t = \alpha + \sum_k m'_{kt}`. A row may join components alive in its epoch, one
    that begins up to ``window`` epochs later, or two that it bridges; components may also swap
    their rows from an epoch on. A sweep costs O(N K L D) for N rows with K nearby components of L
    epochs each, and memory O(T K D); for words, D is their length in time, and their vocabulary in
    memory. Equal seeds give equal bits.

    References
    ----------
    .. [1] A. Ahmed and E. P. Xing. Dynamic non-parametric mixture models and the recurrent Chinese
       restaurant process. SDM 2008.

    Examples
    --------
    >>> from streamddcrp import sample_temporal_dpm
    >>> epochs = [[[-6.1], [5.8], [6.3]], [[-5.9], [-6.4], [6.0]]]
    >>> draws = sample_temporal_dpm(epochs, n_sweeps=100, burn_in=100)
    >>> draws.labels[1].shape
    (80, 3)
    """
    plan = Plan.checked(n_chains, n_sweeps, burn_in, thin)
    settings = Settings(**count_settings(alpha, decay, window))
    emission, rows = read_epochs(likelihood, settings, epochs)
    begin = partial(Sampler, rows, emission, settings, learn_scales=bool(learn_scales))
    *drawn, scales = plan.run(begin, seed, progress=progress)
    joint, labels, n, alphas, weights = map(np.array, drawn)
    first = np.cumsum([0, *(X.shape[0] for X in rows)])
    return TemporalDPMSamples(
        chain=plan.chain,
        log_joint=joint,
        labels=[labels[:, a:b] for a, b in pairwise(first)],
        n_components=n,
        alpha=alphas,
        past_weights=weights,
        scales={name: np.array([one[name] for one in scales]) for name in scales[0]},
    )


class Sampler:
    """The state of the chain, and its sweep."""

    def __init__(
        self, epochs: Iterable[Any], emission: Any, settings: Settings, rng: np.random.Generator,
        *, learn_scales: bool = True,
    ) -> None:  # fmt: skip
        words = isinstance(emission, TextDecay)
        parts = [sparse_rows(X, "epochs") for X in epochs] if words else as_epochs(epochs)
        self.emission, self.settings, self.learn_scales = emission, settings, learn_scales
        self.rng = rng
        first = np.cumsum([0, *(X.shape[0] for X in parts)])
        weights = np.array(settings.past_weights)
        law = Law(chains.GAUSSIAN, math.log(settings.alpha), weights[weights > 0.0])
        none = np.zeros(1, np.int64)
        if words:
            self.rows, self.law = _words(emission, first, parts, law)
            P = S = len(self.law.prior) + 1
            Q, birth = 1, np.zeros(S)
        else:
            _refuse_width(emission, parts)
            if isinstance(emission, GaussianDrift):
                X = np.concatenate(parts) - emission.birth_mean
                P, S, Q = 3 * X.shape[1], 2 * X.shape[1], 1
                birth = np.concatenate([np.zeros(X.shape[1]), emission.birth_var])
                self.law = law
            else:
                X = emission.prepared(np.concatenate(parts))
                family, hyper, prior = emission.prior
                P = S = emission.likelihood.n_stats(emission.n_features)
                Q, birth = len(prior), np.zeros(S)
                self.law = law._replace(kind=chains.CONJUGATE, family=family, hyper=hyper)
            self.rows = Rows(first, X, none, none, np.zeros(1))
        T, last = len(parts), np.zeros(0, np.int64)
        self.chains = Chains(
            np.full(int(first[-1]), -1), np.zeros((T, 0)), np.zeros((T, 0, P)), np.zeros((0, S)),
            birth, last, last.copy(), last.copy(), np.zeros(P), np.zeros(S), np.zeros(Q),
        ).wider(8)  # fmt: skip
        self._set_scales()

    @property
    def scale_names(self) -> Sequence[str]:
        """Names of the emission's scales."""
        names = {
            chains.GAUSSIAN: ("noise", "drift", "birth_var"),
            chains.CONJUGATE: ("rho",),
            chains.WORDS: ("rho",),
        }
        return names[self.law.kind]

    def draw(self) -> tuple[Any, ...]:
        """Return log joint, components of rows, their number, alpha, weights, and the scales."""
        joint = chains.log_prior(self.law, self.rows, self.chains)[0]
        joint += chains.log_evidence(self.law, self.rows, self.chains)
        learned = self.settings.learn_decay
        weights = np.zeros(KERNELS.shape[1] if learned else len(self.law.kappa))
        weights[: len(self.law.kappa)] = self.law.kappa
        scales = {name: getattr(self.law, name) for name in self.scale_names}
        n = len(np.unique(self.chains.c))
        c = self.chains.c.astype(np.int32)
        return joint, c, n, math.exp(self.law.log_alpha), weights, scales

    def sweep(self) -> None:
        """Draw every row's component, the continuations of components, and all scales."""
        self.recount()  # removes rounding errors
        for t in range(len(self.chains.sizes)):
            if t:
                self._each(rejoin, t, 0, -1)
            first, end = (int(i) for i in self.rows.first[t : t + 2])
            self._each(draw_seats, t, first, end)
            chains.advance(self.law, self.chains, t)
        if self.learn_scales:
            self._draw_scales()
        if self.settings.learn_alpha:
            self._draw_alpha()
        if self.settings.learn_decay:
            self._draw_weights()

    def recount(self) -> None:
        """Recount the rows of all chains."""
        chains.recount(self.law, self.rows, self.chains)

    def _each(self, kernel: Any, t: int, start: int, end: int) -> None:
        """Call a kernel, adding slots when it runs out of them."""
        while start != end:
            start = kernel(self.law, self.rows, self.chains, self.rng, t, start)
            if start != end:
                self.chains = self.chains.wider(len(self.chains.fore))

    def _set_scales(self) -> None:
        if self.law.kind == chains.GAUSSIAN:
            values: dict[str, Any] = {
                name: np.ascontiguousarray(getattr(self.emission, name), np.float64)
                for name in self.scale_names
            }
            self.law = self.law._replace(**values)
            self.chains.birth[len(self.emission.noise) :] = self.emission.birth_var
        else:
            self.law = self.law._replace(rho=float(self.emission.rho))

    def _draw_scales(self) -> None:
        if self.law.kind == chains.GAUSSIAN:
            self.emission = self.emission.drawn(self.paths()[1], self.rng)
            self._set_scales()
        elif self.law.kind == chains.CONJUGATE and self.emission.forget is None:
            gains = [
                chains.log_evidence(self.law._replace(rho=float(rho)), self.rows, self.chains)
                for rho in RHOS
            ]
            self.law = self.law._replace(rho=float(RHOS[self._drawn(gains)]))

    def paths(self) -> tuple[FloatArray, FloatArray]:
        """Draw the means (T, C, D) of Gaussian components; return them and sums (3, 2, D)."""
        D = len(self.law.noise)
        path, sums = np.zeros((*self.chains.sizes.shape, D)), np.empty((3, 2, D))
        draw_paths(self.law, self.chains, self.rng, path, sums)
        return path, sums

    def _draw_alpha(self) -> None:
        """Draw alpha given the births, with an auxiliary x_t ~ Beta(A_t, N_t) for every epoch."""
        N = np.diff(self.rows.first)
        past = np.convolve(N, [0.0, *self.law.kappa])[: len(N)]
        some = N > 0
        x = self.rng.beta(math.exp(self.law.log_alpha) + past[some], N[some])
        births = chains.log_prior(self.law, self.rows, self.chains)[1]
        rate = 1.0 / self.settings.alpha - float(np.log(np.maximum(x, 1e-300)).sum())
        self.law = self.law._replace(log_alpha=math.log(self.rng.gamma(2.0 + births, 1.0 / rate)))

    def _draw_weights(self) -> None:
        laws = [self.law._replace(kappa=kappa[kappa > 0.0]) for kappa in KERNELS]
        gains = [chains.log_prior(law, self.rows, self.chains)[0] for law in laws]
        self.law = laws[self._drawn(gains)]

    def _drawn(self, log_weights: Sequence[float]) -> int:
        weights = np.exp(np.array(log_weights) - max(log_weights))
        return int(self.rng.choice(len(weights), p=weights / weights.sum()))


def _refuse_width(emission: Any, parts: Sequence[FloatArray]) -> None:
    """Refuse emissions without evidence in closed form, and rows of another width."""
    known = isinstance(emission, GaussianDrift | ConjugateDecay)
    if not known or isinstance(emission, FullGaussianDrift):
        raise ConfigError(
            "likelihood must be of GaussianDrift, ConjugateDecay or TextDecay, whose evidence the "
            f"sampler knows in closed form, got {type(emission).__name__}"
        )
    D = len(emission.noise) if isinstance(emission, GaussianDrift) else emission.n_features
    if parts[0].shape[1] != D:
        raise ConfigError(f"emission is for {D} columns, the rows have {parts[0].shape[1]}")


def _words(
    emission: TextDecay, first: IntArray, parts: Sequence[Any], law: Law
) -> tuple[Rows, Law]:
    """Return rows with occurring words only, renumbered, and their prior."""
    if first[-1] == 0:
        raise SchemaError("epochs hold no rows; at least one row is needed")
    offsets, words, counts = as_rows(emission.joined(list(parts)))
    if not (np.isfinite(counts) & (counts >= 0.0)).all():
        raise SchemaError("counts of words must be finite and not negative")
    met, words = np.unique(words, return_inverse=True)
    prior, size = emission.prior(int(met.max(initial=-1)) + 1)
    rows = Rows(first, np.zeros((0, 1)), offsets, words.astype(np.int64), counts)
    return rows, law._replace(
        kind=chains.WORDS, rho=float(emission.rho), prior=prior[met], prior_size=float(size)
    )
