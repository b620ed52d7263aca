"""What does ``GroupDP(markov=True)`` gain where states overlap, and what does it cost?

Chains of Gaussians one standard deviation wide, whose means are 2 apart: three states that stay
with probability .9 and else go on in one direction, and four states in a cycle, which go on with
probability .9 and stay else. Labels and densities are predicted before each row is learned; the
first 500 of 2,000 rows are not counted. The reference filters with the true chain.
"""

from __future__ import annotations

import time
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_limits

from benchmarks.machine import machine, markdown, spread
from streamddcrp import GraphCRP, GroupDP, SeqDDCRP

FloatArray = NDArray[np.float64]
LIKELIHOOD = ("normal_gamma", 0.0, 0.05, 1.5, 0.5)
CHAINS = {"three that stay": (3, 0.9), "four in a cycle": (4, 0.1)}
MODELS: dict[str, Any] = {
    "GroupDP(markov=True)": lambda: GroupDP(likelihood=LIKELIHOOD, markov=True),
    "the same, alpha learned": lambda: GroupDP(
        likelihood=LIKELIHOOD, markov=True, alpha=("gamma", 1.0, 1.0)
    ),
    "the same, 20 particles": lambda: GroupDP(likelihood=LIKELIHOOD, markov=True, n_particles=20),
    "the same, 200 particles": lambda: GroupDP(likelihood=LIKELIHOOD, markov=True, n_particles=200),
    "GroupDP(): a Dirichlet process": lambda: GroupDP(likelihood=LIKELIHOOD),
    "GraphCRP()": lambda: GraphCRP(likelihood=LIKELIHOOD),
    "SeqDDCRP()": lambda: SeqDDCRP(likelihood=LIKELIHOOD),
}


def chain(n: int, seed: int, n_states: int, stay: float) -> tuple[FloatArray, NDArray[np.int64]]:
    """Rows (n, 1) of a chain, and its states (n,)."""
    rng = np.random.default_rng(seed)
    z = np.zeros(n, np.int64)
    for t in range(1, n):
        z[t] = (z[t - 1] + (rng.random() >= stay)) % n_states
    return (2.0 * (z - (n_states - 1) / 2) + rng.normal(size=n))[:, None], z


def by_truth(X: FloatArray, n_states: int, stay: float) -> tuple[FloatArray, NDArray[np.int64]]:
    """Log predictive densities (n,) and likeliest states (n,) by the forward filter."""
    move = stay * np.eye(n_states) + (1 - stay) * np.roll(np.eye(n_states), 1, axis=1)
    p, score, label = np.eye(n_states)[0], np.zeros(len(X)), np.zeros(len(X), np.int64)
    means = 2.0 * (np.arange(n_states) - (n_states - 1) / 2)
    for t, x in enumerate(X[:, 0]):
        joint = (p @ move if t else p) * np.exp(-0.5 * (x - means) ** 2) / np.sqrt(2 * np.pi)
        score[t], label[t] = np.log(joint.sum()), joint.argmax()
        p = joint / joint.sum()
    return score, label


@click.command("infinite_hmm", help="GroupDP as a hidden Markov model on overlapping states.")
@click.option("--seeds", default=10, show_default=True, help="Chains of each kind.")
@click.option("--seed", default=100, show_default=True, help="The first of them.")
@click.option("--rows", default=2000, show_default=True)
def main(seeds: int, seed: int, rows: int) -> None:
    """Print a table for each kind of chain."""
    click.echo(machine())
    skip = slice(rows // 4, None)
    with threadpool_limits(1):
        for make in MODELS.values():
            make().step_many(np.zeros((2, 1)))  # compiles
        for kind, truth in CHAINS.items():
            click.echo(f"\n{kind}, seeds from {seed}: median (least to most) of {seeds}.\n")
            streams = [chain(rows, s, *truth) for s in range(seed, seed + seeds)]
            known = [by_truth(X, *truth) for X, _ in streams]
            ari = [
                adjusted_rand_score(z[skip], label[skip])
                for (_, z), (_, label) in zip(streams, known, strict=True)
            ]
            base = np.array([score[skip].mean() for score, _ in known])
            click.echo(markdown(("model", "nats a row below", "ARI", "us a row"), []))
            row = "the true chain", f"{np.median(base):.3f} itself", spread(ari, ".2f"), ""
            click.echo(markdown(row, []).splitlines()[0])
            for name, make in MODELS.items():
                below, ari, cost = [], [], []
                for (X, z), mean in zip(streams, base, strict=True):
                    model, begun = make(), time.process_time()
                    out = model.step_many(X)
                    cost.append(1e6 * (time.process_time() - begun) / rows)
                    score = out["score"].to_numpy(zero_copy_only=False)[skip]
                    below.append(mean + float(score.mean()))
                    ari.append(adjusted_rand_score(z[skip], out["label"].to_numpy()[skip]))
                row = name, spread(below, ".3f"), spread(ari, ".2f"), spread(cost, ".0f")
                click.echo(markdown(row, []).splitlines()[0])


if __name__ == "__main__":
    main()
