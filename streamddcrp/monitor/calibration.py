"""Simulation-based calibration: whether a model's posterior is right under its own prior.

Rows are drawn from the prior, so what they were drawn with is one more draw from the posterior
given them. Its rank among draws of the model is uniform, and so is the place of the next row in the
model's forecast; equal values are put in order at random. Ranks of S simulations are judged by
their cumulative counts, each of which is binomial: the least of their tail probabilities has an
exact distribution, because multinomial counts are Poisson counts given their sum.

References
----------
S. Talts et al. Validating Bayesian inference algorithms with simulation-based calibration. 2018.
T. Säilynoja, P.-C. Bürkner and A. Vehtari. Graphical test for discrete uniformity. Statistics and
Computing 32, 2022.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.stats import binom, poisson
from tqdm import tqdm

from streamddcrp.arguments import checked, generator
from streamddcrp.cards import ResultCard
from streamddcrp.errors import ConfigError
from streamddcrp.estimator.particle_model import PartitionModel
from streamddcrp.monitor.prior_draws import LATER, Drawn, draw_from, options_of
from streamddcrp.typing import Axes, FloatArray, IntArray
from streamddcrp.validation import whole

DRAWS = 39  # from each posterior, so that 38 of 40 ranks are an interval of 95 %
RATE = 0.01  # of false alarms
_THIN, _BURN_IN = 10, 100  # sweeps of a sampler, unless given
_TOLERANCE = 1e-5  # of an integral between two points
_ROUNDS = 30  # halvings of an interval
_MOST_COUNTS = 1 << 14  # values of a count whose probabilities are summed
Density = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, slots=True)
class Calibration(ResultCard):
    """Ranks of the truth among draws from the posterior, in S simulations.

    Attributes
    ----------
    names : tuple of str
        Q quantities: of the partition or the features, of the rows within tables, the mean of the
        last row's table, scales that have a prior, and the next row.
    ranks : ndarray of int64, shape (S, Q)
        From 0 to 39: how many of 39 draws are below the truth. Uniform if the posterior is right.
    """

    names: tuple[str, ...]
    ranks: IntArray

    @property
    def counts(self) -> IntArray:
        """How often each rank was the truth's, (40, Q)."""
        return np.stack([np.bincount(r, minlength=DRAWS + 1) for r in self.ranks.T], axis=1)

    @property
    def p_values(self) -> FloatArray:
        """Exact probabilities (Q,) of ranks as far from uniform if the posterior is right."""
        n = len(self.ranks)
        least = [_tails(n)[counts, np.arange(DRAWS)].min() for counts in self._below()]
        return np.array([1.0 - _chance_within(n, tail) for tail in least])

    @property
    def p_value(self) -> float:
        """The least p-value times their number: at most p with probability p, if all is right."""
        return min(1.0, len(self.names) * float(self.p_values.min()))

    def coverage(self, level: float = 0.95) -> FloatArray:
        """Return how often central intervals hold the truth, (Q,); levels are multiples of 0.05."""
        out = round(0.5 * (1.0 - level) * (DRAWS + 1))
        if not 0 < out < (DRAWS + 1) // 2 or abs(1.0 - level - 2.0 * out / (DRAWS + 1)) > 1e-9:
            raise ConfigError(f"level must be 0.05, 0.1, .., 0.9 or 0.95, got {level!r}")
        inside: FloatArray = ((self.ranks >= out) & (self.ranks <= DRAWS - out)).mean(axis=0)
        return inside

    def summary(self) -> pa.Table:
        """Return a row per quantity: its name, p-value, and coverage of 50 and 95 % intervals."""
        columns = {"quantity": list(self.names), "p_value": self.p_values}
        return pa.table(columns | {f"coverage_{p}": self.coverage(p / 100) for p in (50, 95)})

    def plot(self, ax: Axes | None = None) -> Any:
        """Draw how far the distribution of ranks is from uniform, and a band; return the axes.

        If the posterior is right, all lines stay in the band with probability 0.99 or more. A line
        that rises first and falls then belongs to draws that are too high. Needs matplotlib.
        """
        from streamddcrp.plots.figures import pyplot, styled  # noqa: PLC0415 -- only for pictures

        n, at = len(self.ranks), np.arange(1, DRAWS + 1) / (DRAWS + 1)
        within = _tails(n) > _tail_of_band(n, RATE / len(self.names))
        low, high = within.argmax(axis=0) / n, 1.0 - within[::-1].argmax(axis=0) / n
        with styled():
            ax = pyplot().subplots(figsize=(7.0, 4.0))[1] if ax is None else ax
            ax.fill_between(at, low - at, high - at, color="#E8E8E8", label="99 % of all lines")
            for name, below in zip(self.names, self._below(), strict=True):
                ax.plot(at, below / n - at, label=name)
            ax.set(xlabel="rank of the truth, as a share", ylabel="share below, less uniform")
            ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
        return ax

    def _below(self) -> IntArray:
        """Count the simulations whose rank is at most 0, 1, .., 38: (Q, 39)."""
        below: IntArray = np.cumsum(self.counts, axis=0)[:-1].T
        return below

    def __str__(self) -> str:
        n, said = len(self.ranks), "right" if self.p_value >= RATE else "wrong"
        end = f"called wrong if below {RATE:g}, as one in {1 / RATE:.0f} right ones is at most"
        lines = [
            f"{name:<20} p {p:<7.2g} 95 % intervals hold {held:.1%}"
            for name, p, held in zip(self.names, self.p_values, self.coverage(), strict=True)
        ]
        return "\n".join([*lines, f"{n} simulations: {said}, p {self.p_value:.2g} ({end})"])


@lru_cache(maxsize=4)
def _tails(n: int) -> FloatArray:
    """Smaller tail probability (n + 1, 39) of each cumulative count of n uniform ranks."""
    counts, at = np.arange(n + 1)[:, None], np.arange(1, DRAWS + 1) / (DRAWS + 1)
    return np.asarray(np.minimum(binom.cdf(counts, n, at), binom.sf(counts - 1, n, at)))


def _chance_within(n: int, tail: float) -> float:
    """Chance that all cumulative counts of n uniform ranks have tails above ``tail``."""
    step = poisson.pmf(np.arange(n + 1), n / (DRAWS + 1))
    reached = np.zeros(n + 1)
    reached[0] = 1.0
    for allowed in (_tails(n) > tail * (1.0 + 1e-9)).T:
        reached = np.convolve(reached, step)[: n + 1] * allowed
    return float(reached @ step[::-1] / poisson.pmf(n, n))


def _tail_of_band(n: int, rate: float) -> float:
    """Largest tail probability that ranks leave with a chance of at most ``rate``."""
    low, high = 0.0, 0.5 * rate
    for _ in range(40):
        tail = 0.5 * (low + high)
        low, high = (tail, high) if 1.0 - _chance_within(n, tail) <= rate else (low, tail)
    return low


@checked
def calibrate(
    model: Any,
    truth: Any = None,
    *,
    n_rows: int = 20,
    n_simulations: int = 400,
    seed: int | None = 0,
    progress: bool = False,
) -> Calibration:
    """Check a model or sampler against rows drawn from its own prior.

    Each simulation draws parameters, tables and rows from the prior, lets the model learn the rows,
    and ranks the truth among 39 draws from the posterior. Ranks are uniform if prior, sampler and
    forecast agree: a prior that is off by a factor shows as well as an error in the code or chains
    that are too short.

    Parameters
    ----------
    model : model or functools.partial of a sampler
        `DDCRPSampler`, `GraphCRP`, `GroupDP`, `SeqDDCRP`, `TemporalDPM` (in one epoch) or
        `TimeVaryingIBP` with all numbers of its prior, or ``partial(sample_ddcrp, ...)``, likewise
        `sample_graph_crp`, `sample_graph_ibp`, `sample_group_dp` and `sample_temporal_dpm` (in one
        epoch). A sampler runs one chain, 100 sweeps before and 10 for each of 39 draws, unless
        given.
    truth : as ``model``, optional
        Whose prior rows are drawn from. Default: ``model``. Another one shows how wrong
        probabilities are if the prior is.
    n_rows : int, default 20
        Rows learned in each simulation. Groups alternate unless given.
    n_simulations : int, default 400
        S. More find smaller errors.
    seed : int or None, default 0
    progress : bool, default False
        Show a progress bar.

    Raises
    ------
    ConfigError
        The prior is not known: a likelihood chosen or scaled by the rows, a learned alpha, a
        regression; or rows cannot be drawn from it.

    Notes
    -----
    Of models without draws (`SeqDDCRP`, `TemporalDPM`, `GroupDP`, `TimeVaryingIBP`, and
    `DDCRPSampler` with ``gamma``) only the forecast of the next row is judged. It is that of the
    first column, by the integral of exp(-score) up to the row. 400 simulations of 20 rows take from
    ten seconds to a few minutes.

    Examples
    --------
    >>> from streamddcrp import GraphCRP, calibrate
    >>> family = ("normal_gamma", 0.0, 0.1, 4.0, 3.0)
    >>> model = GraphCRP(likelihood=family, window=9, alpha=1.0, n_particles=50)
    >>> calibrate(model, n_rows=8, n_simulations=30).p_value > 0.01
    True
    >>> wrong = model.clone({"alpha": 9.0})
    >>> calibrate(wrong, model, n_rows=8, n_simulations=30).p_value > 0.01
    False
    """
    n_rows, n_simulations = whole("n_rows", n_rows, 2), whole("n_simulations", n_simulations, 20)
    is_sampler, source = isinstance(model, partial), model if truth is None else truth
    options_of(model)  # refuses what is neither a model nor a sampler
    found = []
    rngs = generator(seed).spawn(n_simulations)
    with _quiet_chains():
        for rng in tqdm(rngs, unit=" simulations", disable=not progress):
            drawn = draw_from(source, n_rows + (not is_sampler), rng)
            found.append((_sampled if is_sampler else _streamed)(model, drawn, n_rows, rng))
    ranks = [list(one.values()) for one in found]
    return Calibration(tuple(found[0]), np.array(ranks, np.int64).reshape(n_simulations, -1))


@contextmanager
def _quiet_chains() -> Iterator[None]:
    """Silence the warning about chains of few draws, which are meant to be short."""
    log = logging.getLogger("streamddcrp.estimator.sweeps")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)


def _sampled(
    model: "partial[Any]", drawn: Drawn, n_rows: int, rng: np.random.Generator
) -> dict[str, int]:
    """Return the ranks of the truth among draws of a sampler."""
    name, _ = options_of(model)
    plan: dict[str, Any] = {"seed": int(rng.integers(1 << 62)), "progress": False}
    plan |= {"n_chains": 1, "n_sweeps": DRAWS * _THIN, "burn_in": _BURN_IN, "thin": _THIN}
    if "group" in drawn.side:
        plan["group"] = drawn.side["group"]
    rows = [drawn.X] if name == "sample_temporal_dpm" else drawn.X
    samples = model.func(rows, *model.args, **{**plan, **model.keywords})
    if len(samples) < DRAWS:
        raise ConfigError(f"n_sweeps: {DRAWS} draws are needed, got {len(samples)}")
    kept = np.linspace(0, len(samples) - 1, DRAWS).round().astype(int)
    if hasattr(samples, "features"):
        seats: Any = [samples.features[s] for s in kept]
    else:
        labels = samples.labels[0] if isinstance(samples.labels, list) else samples.labels
        seats = labels[kept]
    ranks = _ranks(seats, drawn, n_rows, rng)
    for scale, true in drawn.scales.items():
        ranks[scale.replace("_", " ")] = _rank(getattr(samples, scale)[kept], true, rng)
    return ranks


def _streamed(model: Any, drawn: Drawn, n_rows: int, rng: np.random.Generator) -> dict[str, int]:
    """Return the ranks of the truth among draws of a model, and of the next row."""
    known = model.get_params()
    model = model.clone({"seed": int(rng.integers(1 << 62))} if "seed" in known else {})
    side = {name: values[:n_rows] for name, values in drawn.side.items()}
    if hasattr(model, "close"):  # rows one by one are of one epoch
        for row in drawn.X[:n_rows].tolist():
            model.learn_one(dict(enumerate(row)))
    else:
        model.learn_many(drawn.X[:n_rows], **side)
    ranks = {}
    if isinstance(model, PartitionModel) and known.get("gamma") is None:
        seats = model.partitions(DRAWS, seed=int(rng.integers(1 << 62)))
        if seats.shape[1]:  # a decay without an end keeps no rows
            ranks = _ranks(seats, drawn, n_rows, rng)

    def density(x: FloatArray) -> FloatArray:
        rows = np.full((len(x), drawn.X.shape[1]), np.nan)
        rows[:, 0] = x
        beside = {name: [values[n_rows]] * len(x) for name, values in drawn.side.items()}
        return np.asarray(np.exp(-model.score_many(np.ma.masked_invalid(rows), **beside)))

    column = drawn.X[:, 0]
    if (column == np.rint(column)).all():
        share = _place_of_count(density, column[n_rows], rng)
    else:
        share = _place(density, column[:n_rows], column[n_rows])
    ranks["next row"] = min(int((DRAWS + 1) * share), DRAWS)
    beside = {name: values[n_rows:] for name, values in drawn.side.items()}
    p_new = float(model.step_many(drawn.X[n_rows:], **beside)["p_new"][0].as_py())
    share = p_new * rng.random() if _is_new(drawn.seats) else 1.0 - (1.0 - p_new) * rng.random()
    ranks["new table"] = min(int((DRAWS + 1) * share), DRAWS)
    return ranks


def _is_new(seats: Any) -> bool:
    """Whether the last row is the first of its table (N,), or of one of its features (N, K)."""
    if seats.ndim == 2:
        return bool((seats[-1] & ~seats[:-1].any(axis=0)).any())
    return bool(seats[-1] not in seats[:-1])


def _ranks(seats: Any, drawn: Drawn, n_rows: int, rng: np.random.Generator) -> dict[str, int]:
    """Return the ranks of functions of partitions or features, of as many last rows as given."""
    n = len(seats[0])
    rows, truth = slice(n_rows - n, n_rows), drawn.seats[n_rows - n : n_rows]
    facts = [_facts(one, drawn.X[rows]) for one in seats]
    ranks = {
        name: _rank(np.array([one[name] for one in facts]), true, rng)
        for name, true in _facts(truth, drawn.X[rows]).items()
    }
    if drawn.family is not None and n == n_rows:
        stats = drawn.family.suffstats(drawn.X[rows])
        means = [
            drawn.family.sample(rng, stats[one == one[-1]].sum(axis=0), size=LATER)[:, 0].mean()
            for one in seats
        ]
        ranks["mean of last table"] = _rank(np.array(means), drawn.later[n_rows - 1], rng)
    return ranks


def _facts(seats: Any, X: FloatArray) -> dict[str, float]:
    """Return functions of a partition (N,) or of features (N, K), and of rows given them."""
    if seats.ndim == 2:
        on = seats[:, seats.any(axis=0)].astype(np.float64)
        return {"features": on.shape[1], "shared": (on @ on.T).sum(), "of last row": on[-1].sum()}
    _, at, sizes = np.unique(seats, return_inverse=True, return_counts=True)
    totals = np.zeros((len(sizes), X.shape[1]))
    np.add.at(totals, at, X)
    return {
        "tables": len(sizes),
        "pairs together": (sizes**2).sum(),
        "size of last table": sizes[at[-1]],
        "squares of tables": (totals**2 / sizes[:, None]).sum(),
    }


def _rank(draws: FloatArray, true: float, rng: np.random.Generator) -> int:
    """Return how many draws are below the truth, equal ones by chance."""
    near = 1e-9 * max(1.0, abs(true))  # sums in another order
    equal = int((np.abs(draws - true) <= near).sum())
    return int((draws < true - near).sum()) + int(rng.integers(0, equal + 1))


def _place(density: Density, rows: FloatArray, x: float) -> float:
    """Integrate a density up to x: Simpson's rule, on intervals halved until it has converged.

    The first intervals lie between rows, where the density may have narrow peaks, and far out.
    """
    spread = max(float(np.ptp(rows)), 1e-6 * float(np.abs(rows).max()), 1e-300)
    far = np.concatenate([-spread * 4.0 ** np.arange(7, -2, -1), spread * 4.0 ** np.arange(-1, 8)])
    ends = np.unique(np.concatenate([rows, np.median(rows) + far, [x]]))
    ends = ends[ends <= x]
    a, b, total = ends[:-1], ends[1:], 0.0
    at = density(ends)
    f_a, f_b = at[:-1], at[1:]
    for _ in range(_ROUNDS):
        m, width = 0.5 * (a + b), b - a
        f_m = density(m)
        line, curve = 0.5 * width * (f_a + f_b), width * (f_a + 4.0 * f_m + f_b) / 6.0
        rough = np.abs(curve - line) > _TOLERANCE
        total += float(curve[~rough].sum())
        a, m, b, f_a, f_m, f_b = (part[rough] for part in (a, m, b, f_a, f_m, f_b))
        if not len(a):
            break
        a, b = np.concatenate([a, m]), np.concatenate([m, b])
        f_a, f_b = np.concatenate([f_a, f_m]), np.concatenate([f_m, f_b])
    return total


def _place_of_count(density: Density, x: float, rng: np.random.Generator) -> float:
    """Return a uniform place between the probability of smaller counts and that with x."""
    if x > _MOST_COUNTS:
        raise ConfigError(f"likelihood: counts above {_MOST_COUNTS} are not summed; lower its mean")
    p = density(np.arange(x + 1.0))
    return float(p[:-1].sum() + rng.random() * p[-1])
