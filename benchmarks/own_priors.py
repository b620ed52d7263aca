"""Every model and sampler under its own prior: p-values of ranks, coverage of intervals.

Each row of the table is a quantity of one model, in simulations by `streamddcrp.calibrate`: rows
are drawn from the prior and learned, and the truth is ranked among 39 draws from the posterior, or
the next row in its forecast. Where all is right, p-values are uniform, and of S simulations
intervals of 95 % hold the truth with a standard error of sqrt(.05 * .95 / S): .0097 for 500.
"""

from __future__ import annotations

import math
import time
from functools import partial
from typing import Any

import click
import numpy as np

from benchmarks.machine import machine, markdown
from streamddcrp import (
    DDCRPSampler,
    GraphCRP,
    GroupDP,
    SeqDDCRP,
    TemporalDPM,
    TimeVaryingIBP,
    calibrate,
    sample_ddcrp,
    sample_graph_crp,
    sample_graph_ibp,
    sample_group_dp,
    sample_temporal_dpm,
)
from streamddcrp.decay import Exponential, Window
from streamddcrp.likelihoods import DirichletMultinomial, GammaPoisson, NormalWishart

N, ALPHA, REACH = 10, 0.8, 3.0
KITE = [[], [0], [0, 1], [1, 2], [1, 2], [3], [3, 5], [5, 6], [5, 6], [8]]
PLANE = NormalWishart([0.0, 1.0], 0.1, np.eye(2).tolist(), 5.0)
WORDS = DirichletMultinomial(0.3, 4)
GAMMA = {"alpha": ("gamma", 2.0, 2.0)}
PLAIN: dict[str, Any] = {"likelihood": ("normal_gamma", 0.0, 0.1, 4.0, 3.0), "alpha": ALPHA}
PARTICLES: dict[str, Any] = {"n_particles": 200, "warmup": 1}
LINKS = {"decay": ("exponential", REACH), **PLAIN}
FIXED: dict[str, Any] = {"learn_prior": False, "memory": math.inf}
SUMS: dict[str, Any] = {"alpha": ALPHA, "sigma_x": 0.6, "sigma_y": 1.5, "baseline": False}
MODELS: dict[str, Any] = {
    "links": DDCRPSampler(decay=Exponential(REACH) * Window(N + 2.0), **PARTICLES, **PLAIN),
    "recall": DDCRPSampler(gamma=1.5, **PARTICLES, **LINKS),
    "graph": GraphCRP(window=4, **PARTICLES, **PLAIN | GAMMA),
    "counts": GraphCRP(window=N, **PARTICLES, **PLAIN | {"likelihood": GammaPoisson(3.0, 0.2)}),
    "groups": GroupDP(n_shared=3, **PARTICLES, **PLAIN),
    "layers": GroupDP(n_shared=(3, 2), **PARTICLES, **PLAIN),
    "epoch": TemporalDPM(decay=("exponential", 1.0), warmup=1, **PLAIN),
    "features": TimeVaryingIBP(window=N + 1, moves=5, **PARTICLES, **SUMS),
    "stream": SeqDDCRP(recall=False, **FIXED, **LINKS),
    "stream recall": SeqDDCRP(**FIXED, **LINKS),
    "sample links": partial(sample_ddcrp, hyper="both", **LINKS),
    "sample cycles": partial(sample_ddcrp, sequential=False, **LINKS | {"likelihood": PLANE}),
    "sample words": partial(sample_graph_crp, parents=KITE, likelihood=WORDS),
    "sample groups": partial(sample_group_dp, n_shared=3, **PLAIN | GAMMA),
    "sample epoch": partial(sample_temporal_dpm, learn_scales=False, **LINKS),
    "sample features": partial(sample_graph_ibp, graph=KITE),
}


@click.command("own-priors", help=str(__doc__).partition("\n")[0])
@click.option("--models", default=",".join(MODELS), show_default=True)
@click.option("--simulations", default=500, show_default=True)
@click.option("--seed", default=0, show_default=True)
def main(models: str, simulations: int, seed: int) -> None:
    rows = []
    for name in models.split(","):
        if name not in MODELS:
            raise click.UsageError(f"no model {name!r}; there are {', '.join(MODELS)}")
        model, start = MODELS[name], time.process_time()
        found = calibrate(model, n_rows=N, n_simulations=simulations, seed=seed, progress=True)
        seconds = f"{time.process_time() - start:.0f}"
        what = getattr(getattr(model, "func", type(model)), "__name__", "")
        for number, one in enumerate(found.summary().to_pylist()):
            first = [name, f"`{what}`", seconds] if number == 0 else ["", "", ""]
            held = [f"{one[f'coverage_{level}']:.3f}" for level in (50, 95)]
            rows.append([*first, one["quantity"], f"{one['p_value']:.3f}", *held])
    header = ["model", "class or function", "CPU s", "quantity", "p", "50 %", "95 %"]
    click.echo(markdown(header, rows))
    click.echo(f"\n{machine()}")


if __name__ == "__main__":
    main()
