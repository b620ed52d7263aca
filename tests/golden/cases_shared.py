"""Cases of what models share: likelihoods and decays."""

import numpy as np

from streamddcrp.decay import decay_from_config, make_decay
from streamddcrp.likelihoods import choose_likelihood, likelihood_from_config, make_likelihood
from tests.golden import streams
from tests.golden.cases import case
from tests.oracles.links import prior_links


@case
def likelihoods(record):
    X = streams.regimes(40, 2, length=10)
    N, B, W = streams.counts(40, 2), streams.bits(40, 2), streams.waves(40)
    for spec, rows in (
        ("normal_gamma", streams.masked(X).filled(np.nan)),
        ("normal_wishart", streams.masked(X).filled(np.nan)),
        ("gamma_poisson", N),
        ("beta_bernoulli", B),
        (("dirichlet_multinomial", 0.5, 2), N),
        (("regression", [1]), X),
        (("autoregression", 1), W),
        (("product", [("normal_gamma", [0]), ("gamma_poisson", [1])]), np.c_[X[:, 0], N[:, 0]]),
    ):
        name = spec if isinstance(spec, str) else spec[0]
        family = likelihood_from_config(make_likelihood(spec).scaled(rows).to_config())
        d = rows.shape[1]
        stats = family.suffstats(rows)
        groups = np.array([stats[:15].sum(axis=0), stats[15:].sum(axis=0)])
        record.add(f"{name}.config", family)
        record.add(f"{name}.hyper", family.hyper(d))
        record.add(f"{name}.stats", stats)
        record.add(f"{name}.marginal", family.log_marginal(groups))
        record.add(f"{name}.points", family.point_estimates(groups))
        if name != "autoregression":
            record.add(f"{name}.predictive", [family.log_predictive(x, groups) for x in rows[:6]])
            record.add(f"{name}.expected", [family.expected_log_lik(x, groups) for x in rows[:6]])


@case
def likelihood_choice(record):
    for name, X in {
        "numbers": streams.regimes(70), "counts": streams.counts(70), "bits": streams.bits(70),
        "both": np.column_stack([streams.counts(70), streams.regimes(70), streams.bits(70)]),
    }.items():  # fmt: skip
        family, reason = choose_likelihood(X)
        record.add(f"{name}.config", family)
        record.add(f"{name}.hyper", family.hyper(X.shape[1]))
        record.add(f"{name}.reason", reason)


@case
def decays(record):
    d = np.arange(0.0, 30.0, 0.75)
    for name, spec in {
        "none": None,
        "window": ("window", 5),
        "exponential": ("exponential", 8.0),
        "logistic": ("logistic", 3.0, 0.5),
        "linear_window": ("linear_window", 4),
        "sum": make_decay(("exponential", 2.0)) + 0.5 * make_decay(("window", 9.0)),
        "product": make_decay(("exponential", 9.0)) * make_decay(("window", 7.0)),
    }.items():
        decay = decay_from_config(make_decay(spec).to_config())
        record.add(f"{name}.weight", decay.weight(d))
        record.add(f"{name}.log_weight", decay.log_weight(d))
        record.add(f"{name}.horizon", decay.horizon(1e-6))
        record.add(f"{name}.links", prior_links(decay, 0.4, streams.times(20)))
