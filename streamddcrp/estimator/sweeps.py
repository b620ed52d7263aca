"""Shared by Gibbs samplers: parallel chains, their draws, and convergence checks."""

import logging
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy
from numpy.random import Generator
from tqdm import tqdm

from streamddcrp.arguments import generator
from streamddcrp.cards import ResultCard
from streamddcrp.errors import import_extra
from streamddcrp.likelihoods import Likelihood, make_likelihood
from streamddcrp.likelihoods.auto import choose_likelihood
from streamddcrp.typing import FloatArray, IntArray
from streamddcrp.validation import whole

_log = logging.getLogger(__name__)
MIXED = 1.1  # R-hat above which a warning is given


def fitted(likelihood: Any, rows: FloatArray) -> Likelihood:
    """Return the likelihood, completed from the rows; or refuse the rows."""
    if isinstance(likelihood, str) and likelihood == "auto":
        family, reason = choose_likelihood(rows)
        _log.info("likelihood: %s", reason)
    else:
        family = make_likelihood(likelihood)
    family.check_rows(rows)
    return family.scaled(rows)


class Plan(NamedTuple):
    """The number of chains and of their sweeps."""

    n_chains: int
    n_sweeps: int
    burn_in: int
    thin: int

    @classmethod
    def checked(cls, n_chains: Any, n_sweeps: Any, burn_in: Any, thin: Any) -> "Plan":
        """Return the checked numbers; ConfigError if one is out of range."""
        n_chains, n_sweeps = whole("n_chains", n_chains, 1), whole("n_sweeps", n_sweeps, 1)
        return cls(n_chains, n_sweeps, whole("burn_in", burn_in), whole("thin", thin, 1, n_sweeps))

    @property
    def n_kept(self) -> int:
        """Draws of one chain."""
        return self.n_sweeps // self.thin

    @property
    def chain(self) -> IntArray:
        """The chain of every draw."""
        return np.repeat(np.arange(self.n_chains), self.n_kept)

    def chains(self, seed: int | None, *, progress: bool) -> Iterator[tuple[Generator, Any]]:
        """Yield each chain's random generator and progress bar."""
        total = self.n_chains * (self.burn_in + self.n_kept * self.thin)
        with tqdm(total=total, unit=" sweeps", disable=not progress) as bar:
            for number, rng in enumerate(generator(seed).spawn(self.n_chains), 1):
                bar.set_postfix(chain=number, refresh=False)
                yield rng, bar

    def run(
        self, begin: Callable[[Generator], Any], seed: int | None, *, progress: bool
    ) -> list[list[Any]]:
        """Run chains of ``sweep`` and ``draw``; return all S draws, item by item."""
        found = []
        for rng, bar in self.chains(seed, progress=progress):
            chain = begin(rng)
            for done in range(1 - self.burn_in, self.n_kept * self.thin + 1):
                chain.sweep()
                bar.update()
                if done > 0 and done % self.thin == 0:
                    found.append(chain.draw())
        return [list(item) for item in zip(*found, strict=True)]


@dataclass(frozen=True, slots=True)
class Draws(ResultCard):
    """S draws from a posterior, chain after chain.

    Attributes
    ----------
    chain : ndarray of int64, shape (S,)
        Number of the chain.
    log_joint : ndarray of float64, shape (S,)
        Log joint density of the data and the draw, in nats.
    """

    _traced: ClassVar[tuple[str, ...]] = ()  # further fields, (S,) or (S, ..), to trace

    chain: IntArray
    log_joint: FloatArray

    def __post_init__(self) -> None:
        found = r_hat(self.traces()["log_joint"])
        if found > MIXED:
            _log.warning(
                "the chains have not mixed: R-hat of the log joint density is %.2f, above %.1f; "
                "sample longer, or compare chains before averaging over them", found, MIXED,
            )  # fmt: skip

    @property
    def n_chains(self) -> int:
        """Number of chains."""
        return int(self.chain[-1]) + 1

    def __len__(self) -> int:
        """Return the number of draws S."""
        return len(self.chain)

    @property
    def best(self) -> int:
        """The draw with the highest log joint density."""
        return int(self.log_joint.argmax())

    def traces(self) -> dict[str, FloatArray]:
        """Return the traces of each chain, (chains, draws) each.

        Fixed parameters, such as a given alpha, have no entry; vectors have one for each component.
        """
        found: dict[str, Any] = {}
        for field in ("log_joint", *self._traced):
            value = getattr(self, field)
            for name, x in value.items() if isinstance(value, dict) else [(field, value)]:
                columns = np.asarray(x, dtype=np.float64).reshape(len(self), -1).T
                entry = "{}[{}]" if np.ndim(x) > 1 else "{}"
                found |= {entry.format(name, i): column for i, column in enumerate(columns)}
        return {
            name: x.reshape(self.n_chains, -1)
            for name, x in found.items()
            if name == "log_joint" or name.startswith("n_") or np.ptp(x) > 0.0
        }

    def diagnostics(self) -> dict[str, dict[str, float]]:
        """Return whether the chains agree and their effective sample sizes.

        Returns
        -------
        dict
            For each trace: ``mean``, ``sd``, ``mcse`` (Monte Carlo standard error of the mean),
            ``ess_bulk``, ``ess_tail`` (effective sample sizes) and ``r_hat``, split and
            rank-normalised (Vehtari et al. 2021): above 1.01 the chains have not mixed. For a trace
            that never changes, all but mean and sd are NaN.

        Raises
        ------
        MissingExtraError
            ArviZ is not installed.
        """
        az = _arviz()
        out = {}
        for name, x in self.traces().items():
            found = dict.fromkeys(("mcse", "ess_bulk", "ess_tail"), float("nan"))
            if x.shape[1] >= 4 and (np.ptp(x, axis=1) > 1e-12 * np.abs(x).max()).all():
                found["mcse"] = float(np.squeeze(az.mcse(x)))
                found["ess_bulk"] = float(az.ess(x))
                found["ess_tail"] = float(az.ess(x, method="tail"))
            out[name] = {"mean": float(x.mean()), "sd": float(x.std()), **found, "r_hat": r_hat(x)}
        return out

    def to_arviz(self) -> Any:
        """Return the traces as ``arviz.InferenceData``, for its plots and summaries.

        Raises
        ------
        MissingExtraError
            ArviZ is not installed.
        """
        return _arviz().from_dict(posterior=self.traces())


def r_hat(x: FloatArray) -> float:
    """Return the split R-hat of chains (C, S), by ranks and by ranks of distances to the median.

    It is the larger of the two; NaN with fewer than four draws or no variation.
    """
    n = x.shape[1] // 2
    if n < 2 or not np.ptp(x) > 0.0:
        return float("nan")
    halves = np.concatenate([x[:, :n], x[:, -n:]])
    return max(_r_hat(halves), _r_hat(np.abs(halves - np.median(halves))))


def _r_hat(x: FloatArray) -> float:
    _, place, n_equal = np.unique(x, return_inverse=True, return_counts=True)
    rank = (np.cumsum(n_equal) - 0.5 * (n_equal - 1))[place].reshape(x.shape)
    z = scipy.special.ndtri((rank - 0.375) / (x.size + 0.25))
    n, within = x.shape[1], float(z.var(axis=1, ddof=1).mean())
    between = float(z.mean(axis=1).var(ddof=1))
    if within == 0.0:
        return float("inf") if between > 0.0 else float("nan")
    return float(np.sqrt((n - 1) / n + between / within))


def _arviz() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # announces its next version
        return import_extra("arviz", "diagnostics need ArviZ", "diagnostics")
