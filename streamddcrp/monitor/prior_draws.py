"""Rows drawn from the prior of a model or sampler, with what they were drawn with.

All partitions here are those of links: item i links to item j with weight w_ij and to itself with
alpha, and linked items share a table. Where all weights are 0 or 1 this is a Chinese restaurant
process on a graph.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from streamddcrp.data.graphs import decomposable, from_parents, window
from streamddcrp.decay import make_decay
from streamddcrp.errors import ConfigError
from streamddcrp.likelihoods import Likelihood, LinearGaussian, make_likelihood
from streamddcrp.models.ddcrp.distances import Distances
from streamddcrp.models.ddcrp.sampler import PARAMETER, decay_parameter, make_grid
from streamddcrp.models.graph.group_gibbs import MOST
from streamddcrp.models.graph.groups import layers_of
from streamddcrp.models.seqddcrp.estimator import SeqDDCRP
from streamddcrp.partitions import labels_of_links
from streamddcrp.typing import FloatArray

LATER = 50  # further rows of a table, whose mean is a cluster parameter with noise
Options = Mapping[str, Any]


class Drawn(NamedTuple):
    """N rows, and what they were drawn with."""

    X: FloatArray  # (N, D)
    seats: Any  # tables (N,), or features (N, K)
    scales: dict[str, float]  # that have a prior, by the name of the sampler's draws
    side: dict[str, list[Any]]  # more about each row, for `learn_many`
    family: Likelihood | None = None
    later: FloatArray = np.empty(0)  # mean of LATER more rows of each row's table, (N,)


def options_of(model: Any) -> tuple[str, dict[str, Any]]:
    """Return the name of a model's class, or of the function of a `partial`, and its options.

    ConfigError if no rows can be drawn for it.
    """
    name = getattr(model.func if isinstance(model, partial) else type(model), "__name__", "")
    if name not in PRIORS:
        raise ConfigError(
            f"model: no rows can be drawn for {name!r}; there are {', '.join(PRIORS)}"
        )
    if not isinstance(model, partial):
        return name, model.get_params()
    known = inspect.signature(model.func).parameters.values()
    options = {one.name: one.default for one in known if one.default is not one.empty}
    return name, {**options, **model.keywords}


def draw_from(model: Any, n: int, rng: Generator) -> Drawn:
    """Draw ``n`` rows from the prior of a model or sampler."""
    name, options = options_of(model)
    return PRIORS[name](options, n, rng)


def _seated(
    p: FloatArray, options: Options, n: int, rng: Generator,
    scales: Mapping[str, float] | None = None, side: Mapping[str, Any] | None = None,
) -> Drawn:  # fmt: skip
    """Draw links by their probabilities (M, M), and rows for the last ``n`` items."""
    links = (p.cumsum(axis=1) < rng.random((len(p), 1)) * p.sum(axis=1, keepdims=True)).sum(axis=1)
    seats = labels_of_links(links)
    if options.get("gamma") is not None:
        seats = _recalled(seats, options["gamma"], rng)
    seats, family = seats[-n:], _family(options)
    D = family.n_features or 1
    tables, at = np.unique(seats, return_inverse=True)
    none = np.zeros(family.n_stats(D))
    rows = np.array([family.sample(rng, none, size=n + LATER) for _ in tables])
    later = rows[:, n:, 0].mean(axis=1)[at]
    return Drawn(rows[at, np.arange(n)], seats, dict(scales or {}), dict(side or {}), family, later)


def _family(options: Options) -> Likelihood:
    given = options["likelihood"]
    given = getattr(given, "likelihood", given)  # within a `ConjugateDecay`
    family = None if given == "auto" else make_likelihood(given)
    if family is None or not family.is_scaled:
        raise ConfigError(
            f"likelihood: rows are drawn from its prior, so give a family with all its numbers, "
            f"such as ('normal_gamma', 0.0, 0.1, 4.0, 3.0); got {given!r}"
        )
    if family.prepare(np.zeros((1, family.n_features or 1)))[1] is not None:
        raise ConfigError("likelihood: rows of a regression are not drawn here; choose another")
    return family


def _recalled(seats: Any, gamma: float, rng: Generator) -> Any:
    """Let each opener take an earlier table's parameter, by its openings, or a new one's."""
    openings: list[int] = []
    of_table = {}
    for table in np.unique(seats).tolist():  # in the order of openers
        weight = np.array([*openings, gamma])
        k = int(rng.choice(len(weight), p=weight / weight.sum()))
        openings += [0] * (k == len(openings))
        openings[k] += 1
        of_table[table] = k
    return np.array([of_table[table] for table in seats.tolist()])


def _given(options: Options, **plain: Any) -> None:
    """Refuse options with other values than those under which rows can be drawn."""
    for name, value in plain.items():
        if options.get(name, value) != value:
            raise ConfigError(
                f"{name}={options[name]!r}: rows are drawn with {name}={value!r} only"
            )


def _alpha(options: Options, rng: Generator) -> tuple[float, dict[str, float]]:
    """Return alpha, drawn if it has a prior, and the scales that were drawn."""
    alpha = options["alpha"]
    if alpha is None:
        raise ConfigError("alpha: rows are drawn with a given alpha, or with its prior")
    if not isinstance(alpha, tuple | list):
        return float(alpha), {}
    drawn = rng.gamma(float(alpha[1]), 1.0 / float(alpha[2]))
    return drawn, {"alpha": drawn}


def _normalised(weight: Any, alpha: float) -> FloatArray:
    p = np.where(weight, weight, 0.0) + alpha * np.eye(len(weight))
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def _ddcrp(options: Options, n: int, rng: Generator) -> Drawn:
    alpha, decay, scales = options["alpha"], make_decay(options["decay"]), {}
    if options.get("hyper") is not None:
        grid = make_grid(options["hyper"], alpha, decay)
        if grid.alpha is not None:
            alpha = scales["alpha"] = float(rng.choice(grid.alpha))
        if grid.decay is not None:
            name = PARAMETER[type(decay)]
            decay = replace(decay, **{name: float(rng.choice(grid.decay))})  # type: ignore[type-var]
            scales["decay_parameter"] = decay_parameter(decay)
    where = options.get("distances")
    if where is None:
        t = options.get("t")
        times = np.arange(float(n)) if t is None else t
        where = Distances.by_time(times, sequential=options.get("sequential", True))
    return _seated(np.exp(where.candidates(decay, alpha).log_prior()), options, n, rng, scales)


def _seqddcrp(options: Options, n: int, rng: Generator) -> Drawn:
    family = _family(options)
    model = SeqDDCRP(**options).fit(family.sample(rng, np.zeros(family.n_stats(1)), size=1))
    return _ddcrp(model._plain_prior(), n, rng)


def _graph(options: Options, n: int, rng: Generator) -> Drawn:
    _given(options, discount=0.0, n_clusters=None, whole_graph=False)
    if options.get("edges") is not None:
        graph = decomposable(n, options["edges"])
    elif options.get("parents") is not None:
        graph = from_parents(options["parents"])
    else:
        graph = window(n, options["window"])
    alpha, scales = _alpha(options, rng)
    sees = np.array([[j in mine for j in range(n)] for mine in graph.parents])
    return _seated(_normalised(sees, alpha), options, n, rng, scales)


def _groups(options: Options, n: int, rng: Generator) -> Drawn:
    """Items of the root, of nodes and of groups see their own place and the one above."""
    _given(options, markov=False, gamma=None)
    alpha, scales = _alpha(options, rng)
    shared = options["n_shared"]
    if shared == "auto":
        shared = int(rng.integers(1, MOST + 1))
        scales["root_items"] = float(shared)
    layers = layers_of(shared)
    usual = [("x", "a"), ("x", "b"), ("y", "c")] if len(layers) == 2 else [("a",), ("b",)]
    group = list(options.get("group") or (usual * n)[:n])
    paths = [(one,) if isinstance(one, str | int) else tuple(one) for one in group]
    nodes = [(name,) for name in dict.fromkeys(path[0] for path in paths)]
    places = [()] * layers[0] + [node for node in nodes for _ in range(sum(layers[1:]))] + paths
    sees = np.array([[q in (p, p[:-1]) for q in places] for p in places])
    sees = np.tril(sees, -1)
    side = {"group": [path[0] if len(path) == 1 else path for path in paths]}
    return _seated(_normalised(sees, alpha), options, n, rng, scales, side)


def _epoch(options: Options, n: int, rng: Generator) -> Drawn:
    """All rows in one epoch, in which the mixture is a Chinese restaurant process."""
    alpha, scales = _alpha(options, rng)
    return _seated(_normalised(np.tri(n, k=-1), alpha), options, n, rng, scales)


def _features(options: Options, n: int, rng: Generator) -> Drawn:
    """Feature k of m of an item's q parents is on with probability m / (q + 1)."""
    _given(options, baseline=False)
    alpha, scales = (
        _alpha(options, rng)
        if options["alpha"] is not None
        else _alpha({"alpha": ("gamma", 1.0, 1.0)}, rng)
    )
    graph = options.get("graph", options.get("window"))
    family = options.get("likelihood", "auto")
    if family == "auto":
        family = LinearGaussian(options.get("sigma_x"), options.get("sigma_y"))
    if isinstance(graph, int):
        graph = window(n, graph)
    elif not hasattr(graph, "parents"):
        graph = from_parents(graph)
    on = np.zeros((n, 0), np.bool_)
    for i in graph.order.tolist():
        mine = sorted(graph.parents[i])
        on[i] = rng.random(on.shape[1]) < on[mine].sum(axis=0) / (len(mine) + 1.0)
        new = np.zeros((n, rng.poisson(alpha / (len(mine) + 1.0))), np.bool_)
        new[i] = True
        on = np.hstack([on, new])
    noise = family.rate if family.known else family.rate / rng.gamma(family.shape)
    ratio = float(rng.choice(family.ratios))
    loadings = rng.normal(0.0, np.sqrt(noise / ratio), (on.shape[1], 1))
    X = on @ loadings + rng.normal(0.0, np.sqrt(noise), (n, 1))
    if len(family.ratios) > 1:
        scales["ratio"] = ratio
    return Drawn(X, on, scales, {})


PRIORS: dict[str, Callable[[Options, int, Generator], Drawn]] = {
    "DDCRPSampler": _ddcrp, "sample_ddcrp": _ddcrp, "SeqDDCRP": _seqddcrp,
    "GraphCRP": _graph, "sample_graph_crp": _graph,
    "GroupDP": _groups, "sample_group_dp": _groups,
    "TemporalDPM": _epoch, "sample_temporal_dpm": _epoch,
    "TimeVaryingIBP": _features, "sample_graph_ibp": _features,
}  # fmt: skip
