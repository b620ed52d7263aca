"""Groups that share clusters beside a hierarchical Dirichlet process, on Gaussians in groups.

Eight Gaussians of the plane, one standard deviation wide, means drawn with standard deviation 4.
"flat": ten groups, each with weights from a flat Dirichlet. "nested": two nodes of five groups; a
node's weights are from Dirichlet(1/2), those of its groups from Dirichlet around them, of strength
10. Thirty rows a group to learn, fifty to predict, each alone, given those learned. The peer is the
direct assignment sampler of Teh et al. (2006); all have the same family and prior, and the same
numbers of sweeps. ARI is the mean over the draws, of the rows learned; both figures are medians.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import click
import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_limits

from benchmarks.machine import machine, markdown, spread
from research.benchmarks.hdp import HDP
from streamddcrp import GroupDP, sample_group_dp

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
LIKELIHOOD = ("normal_gamma", 0.0, 0.05, 2.0, 2.0)
GROUPS, LEARNED, HELD, COMPONENTS = 10, 30, 50, 8


class Data(NamedTuple):
    """Rows to learn and rows to predict, with their groups and components."""

    X: FloatArray
    group: IntArray
    label: IntArray
    X_held: FloatArray
    group_held: IntArray
    truth: float  # mean log density of the held-out rows


def draw(kind: str, seed: int) -> Data:
    """Draw the rows of all groups."""
    rng = np.random.default_rng(seed)
    means = 4.0 * rng.normal(size=(COMPONENTS, 2))
    share = rng.dirichlet(np.ones(COMPONENTS), GROUPS)
    if kind == "nested":
        nodes = rng.dirichlet(np.full(COMPONENTS, 0.5), 2)
        share = np.array([rng.dirichlet(10.0 * nodes[g % 2] + 1e-3) for g in range(GROUPS)])
    group = np.repeat(np.arange(GROUPS), LEARNED + HELD)
    label = np.array([rng.choice(COMPONENTS, p=share[g]) for g in group])
    X = means[label] + rng.normal(size=(len(label), 2))
    held = np.tile(np.arange(LEARNED + HELD) >= LEARNED, GROUPS)
    order = rng.permutation(np.flatnonzero(~held))
    gap = ((X[held][:, None] - means) ** 2).sum(axis=2)
    density = (share[group[held]] * np.exp(-0.5 * gap)).sum(axis=1) / (2 * np.pi)
    return Data(
        X[order], group[order], label[order], X[held], group[held], float(np.log(density).mean())
    )


Result = tuple[float, float]  # mean log density of held-out rows, ARI


def by_hdp(data: Data, sweeps: int, seed: int) -> Result:
    chain, scores, ari = HDP(data.X, data.group, LIKELIHOOD, seed), [], []
    for sweep in range(2 * sweeps):
        chain.sweep()
        if sweep >= sweeps:
            ari.append(adjusted_rand_score(data.label, chain.label))
            if sweep % 4 == 3:
                scores.append(chain.log_predictive(data.X_held, data.group_held))
    found = np.logaddexp.reduce(scores, axis=0) - np.log(len(scores))
    return float(found.mean()), float(np.mean(ari))


def by_groups(name: Callable[[int], Any], **options: Any) -> Callable[[Data, int, int], Result]:
    """Return what runs `sample_group_dp`; ``name`` is that of a group."""

    def run(data: Data, sweeps: int, seed: int) -> Result:
        draws = sample_group_dp(
            data.X, LIKELIHOOD, group=[name(g) for g in data.group], n_chains=1, n_sweeps=sweeps,
            burn_in=sweeps, seed=seed, **options,
        )  # fmt: skip
        found = draws.log_predictive(data.X_held, [name(g) for g in data.group_held])
        ari = [adjusted_rand_score(data.label, row) for row in draws.labels]
        return float(found.mean()), float(np.mean(ari))

    return run


def apart(data: Data, sweeps: int, seed: int) -> Result:
    """Each group by a model of its own."""
    scores, labels = [], np.zeros((sweeps, len(data.X)), np.int64)
    for g in range(GROUPS):
        mine, held = data.group == g, data.group_held == g
        draws = sample_group_dp(
            data.X[mine],
            LIKELIHOOD,
            group=None,
            n_chains=1,
            n_sweeps=sweeps,
            burn_in=sweeps,
            seed=seed,
        )
        labels[:, mine] = draws.labels + 1000 * g
        scores.append(draws.log_predictive(data.X_held[held]).mean())
    ari = [adjusted_rand_score(data.label, row) for row in labels]
    return float(np.mean(scores)), float(np.mean(ari))


def by_stream(data: Data, sweeps: int, seed: int, **options: Any) -> Result:
    """One pass of the particles; the labels are those of the arrivals."""
    model = GroupDP(alpha=("gamma", 1.0, 1.0), likelihood=LIKELIHOOD, seed=seed, **options)
    label = model.step_many(data.X, group=data.group)["label"].to_numpy()
    pairs = zip(data.X_held.tolist(), data.group_held, strict=True)
    scores = [-model.score_one(dict(enumerate(x)), group=g) for x, g in pairs]
    return float(np.mean(scores)), float(adjusted_rand_score(data.label, label))


def by_evidence(data: Data, sweeps: int, seed: int) -> Result:
    """One pass with each of several numbers of items, weighed by evidence; labels of the best."""
    evidence, scores, labels = [], [], []
    for n in (2, 5, 10, 20, 50):
        model = GroupDP(n_shared=n, alpha=("gamma", 1.0, 1.0), likelihood=LIKELIHOOD, seed=seed)
        labels.append(model.step_many(data.X, group=data.group)["label"].to_numpy())
        evidence.append(model.log_evidence)
        pairs = zip(data.X_held.tolist(), data.group_held, strict=True)
        scores.append([-model.score_one(dict(enumerate(x)), group=g) for x, g in pairs])
    log_weight = np.array(evidence) - np.logaddexp.reduce(evidence)
    found = np.logaddexp.reduce(np.array(scores) + log_weight[:, None], axis=0)
    best = labels[int(np.argmax(evidence))]
    return float(found.mean()), float(adjusted_rand_score(data.label, best))


def node(g: int) -> tuple[int, int]:
    """Name a group below its node."""
    return (g % 2, g)


MODELS: dict[str, Any] = {
    "HDP, direct assignment": by_hdp,
    "`sample_group_dp`, 5 auxiliary items": by_groups(int, n_shared=5),
    "`sample_group_dp` (20)": by_groups(int),
    "the same, 80": by_groups(int, n_shared=80),
    "the same, two layers, (20, 10)": by_groups(node, n_shared=(20, 10)),
    'the same, `n_shared="auto"`': by_groups(int, n_shared="auto"),
    "`GroupDP`, alpha learned, one pass": by_stream,
    "the same, 2 to 50 auxiliary items by evidence": by_evidence,
    **{
        f"`GroupDP(gamma=1.0)`, {n} particles, one pass": partial(
            by_stream, gamma=1.0, n_particles=n
        )
        for n in (50, 200, 1000, 4000)
    },
    "one Dirichlet process for all groups": by_groups(lambda g: "all"),
    "one for each group": apart,
}


@click.command("group_dp", help="Clusters shared by groups, beside an HDP, on Gaussians.")
@click.option("--seeds", default=10, show_default=True, help="Data sets of each kind.")
@click.option("--seed", default=100, show_default=True, help="The first of them.")
@click.option("--sweeps", default=200, show_default=True, help="Before, and of, the draws.")
def main(seeds: int, seed: int, sweeps: int) -> None:
    """Print a table for each kind of data."""
    click.echo(machine())
    with threadpool_limits(1):
        for run in (by_groups(int), by_stream):
            run(draw("flat", 0), 2, 0)  # compiles
        for kind in ("flat", "nested"):
            sets = [draw(kind, s) for s in range(seed, seed + seeds)]
            truth = np.median([data.truth for data in sets])
            click.echo(f"\n{kind}, seeds from {seed}: median (least to most) of {seeds}.\n")
            click.echo(f"The true model has {truth:.3f} nats a row.\n")
            click.echo(markdown(("model", "nats a row below", "ARI", "CPU s"), []))
            for name, run in MODELS.items():
                below, ari, cost = [], [], []
                for s, data in enumerate(sets, seed):
                    begun = time.process_time()
                    score, index = run(data, sweeps, s)
                    cost.append(time.process_time() - begun)
                    below.append(data.truth - score)
                    ari.append(index)
                row = name, spread(below, ".3f"), spread(ari, ".2f"), spread(cost, ".1f")
                click.echo(markdown(row, []).splitlines()[0])


if __name__ == "__main__":
    main()
