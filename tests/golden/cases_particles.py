"""Cases of the models by particles and of the samplers beside them."""

import numpy as np

from streamddcrp import (
    DDCRPSampler,
    Distances,
    GraphCRP,
    GroupDP,
    SeqDDCRP,
    TimeVaryingIBP,
    alpha_for,
    calibrate,
    count_regimes,
    estimate_evidence,
    labels_of_links,
    point_estimate,
    prior_summary,
    race,
    sample_ddcrp,
    sample_graph_crp,
    sample_graph_ibp,
    sample_group_dp,
    similarity_matrix,
)
from streamddcrp.likelihoods import LinearGaussian, NormalGamma
from tests.golden import streams
from tests.golden.cases import case
from tests.golden.streams import follow

GIVEN = ("normal_gamma", 0.0, 0.05, 1.5, 0.5)
FAMILY = NormalGamma(0.0, 0.05, 1.5, 0.5)
PROBES = ({0: 0.4, 1: -3.0}, {0: 9.0, 1: 9.0})


@case
def ddcrp_sampler(record):
    X, t = streams.regimes(160, length=20), streams.times(160)
    follow(record, "auto", DDCRPSampler(n_particles=7, warmup=30), X, probes=PROBES)
    given = DDCRPSampler(likelihood=GIVEN, n_particles=5, decay=("exponential", 6.0))
    follow(record, "given", given, X, probes=PROBES)
    timed = DDCRPSampler(likelihood=GIVEN, n_particles=5, decay=("window", 9.0), warmup=20, seed=3)
    follow(record, "window", timed, X, t, probes=PROBES, at=float(t[-1]) + 1.0)
    timed = DDCRPSampler(likelihood=GIVEN, n_particles=5, decay=("logistic", 9.0), time_unit=4.0)
    follow(record, "logistic", timed, X, t, probes=PROBES, at=float(t[-1]) + 1.0)
    follow(record, "crp", DDCRPSampler(likelihood=GIVEN, decay="none", n_particles=5), X)


@case
def ddcrp_sampler_families(record):
    X = streams.with_gaps(streams.regimes(120, 3, length=20))
    N, W = streams.counts(120), streams.waves(120)
    for name, likelihood, rows in (
        ("normal_wishart", "normal_wishart", X),
        ("autoregression", ("autoregression", 2), W),
        ("gamma_poisson", "gamma_poisson", N),
        ("dirichlet", ("dirichlet_multinomial", 0.5, 3), N),
        ("beta_bernoulli", "beta_bernoulli", streams.bits(120)),
        ("mixed", "auto", streams.mixed(120)),
    ):
        model = DDCRPSampler(likelihood=likelihood, n_particles=5, warmup=30)
        follow(record, name, model, rows)


@case
def ddcrp_gibbs(record):
    X = streams.regimes(30, length=6)
    short = {"n_sweeps": 20, "burn_in": 5, "n_chains": 2, "seed": 1}
    for name, options in {
        "index": {},
        "general": {"sequential": False},
        "hyper": {"hyper": "both"},
        "links": {"hyper": "alpha", "sequential": False},
        "times": {"t": streams.times(30)},
        "covariates": {"distances": Distances.by_covariates(X)},
        "hops": {"distances": Distances.by_hops(np.eye(30, k=1) + np.eye(30, k=-1))},
        "matrix": {"distances": Distances.by_matrix(np.abs(np.subtract.outer(X[:, 0], X[:, 0])))},
    }.items():
        draws = sample_ddcrp(X, FAMILY, alpha=0.3, decay=("exponential", 5.0), **short, **options)
        for field in ("links", "labels", "n_tables", "log_joint", "alpha", "decay_parameter"):
            record.add(f"{name}.{field}", getattr(draws, field))
        record.add(f"{name}.traces", draws.traces())
    draws = sample_ddcrp(
        streams.with_gaps(X), alpha=1.0, decay=("exponential", 5.0), t=streams.times(30), **short
    )
    record.add("auto.labels", draws.labels)
    record.add("auto.log_joint", draws.log_joint)


@case
def evidence_of_runs(record):
    model = GraphCRP(likelihood=GIVEN, n_particles=5, rejuvenate=4)
    found = estimate_evidence(model, streams.regimes(30, length=8), n_runs=3)
    record.add("evidence", found)
    record.add("interval", found.interval())
    model.learn_many(streams.regimes(30, length=8))
    record.add("partitions", model.partitions(5, seed=1))
    stream = SeqDDCRP(likelihood=GIVEN)
    stream.learn_many(streams.regimes(60, length=20))
    record.add("regimes", count_regimes(stream))
    rows = streams.regimes(60, length=20)
    models = {"links": DDCRPSampler(likelihood=GIVEN, n_particles=5), "stream": stream.clone()}
    found = calibrate(model, n_rows=5, n_simulations=20)
    record.add("calibration", found)
    record.add("p_values", found.p_values)
    record.add("race", race({name: one.step_many(rows)["score"] for name, one in models.items()}))


@case
def ddcrp_prior(record):
    t = streams.times(50)
    for name, where in {
        "index": 50, "times": t, "general": Distances.by_index(50, sequential=False),
        "covariates": Distances.by_covariates(streams.regimes(20), sequential=False),
    }.items():  # fmt: skip
        record.add(f"summary.{name}", prior_summary(0.4, ("exponential", 5.0), where, n_draws=20))
    record.add("alpha", [
        alpha_for(("exponential", 8.0), table_size=20.0),
        alpha_for(("window", 8.0), 100, n_tables=7.0),
        alpha_for("none", t, n_tables=5.0),
        alpha_for(("logistic", 8.0), 80, table_size=6.0),
    ])  # fmt: skip


@case
def partitions(record):
    rng = np.random.default_rng(18)
    links = np.minimum(rng.integers(0, 40, (12, 40)), np.arange(40))
    labels = labels_of_links(links)
    weights = rng.random(12)
    record.add("labels", labels)
    record.add("single", labels_of_links(links[0]))
    record.add("similarity", similarity_matrix(labels, weights))
    for loss in ("vi", "binder"):
        record.add(f"estimate.{loss}", point_estimate(labels, loss=loss))


@case
def graph_crp(record):
    X = streams.regimes(160, length=20)
    views = ["alpha_mean"]
    for name, options in {
        "auto": {"warmup": 30, "n_particles": 11, "window": 20},
        "revised": {
            "likelihood": GIVEN,
            "n_particles": 7,
            "rejuvenate": 3,
            "moves": 2,
            "window": 9,
        },
        "whole graph": {
            "likelihood": GIVEN,
            "alpha": 0.5,
            "n_clusters": 4,
            "whole_graph": True,
            "rejuvenate": 2,
        },
    }.items():
        model = GraphCRP(**{"window": 12, "n_particles": 9, **options})
        follow(record, name, model, X, probes=PROBES, views=views)
    model = GraphCRP(likelihood=("autoregression", 2), warmup=30, n_particles=7, window=12)
    t = streams.times(120)
    follow(record, "times", model, streams.waves(120), t, probes=[{0: 1.0}], at=float(t[-1]))


@case
def graph_crp_parents(record):
    X, parents = streams.regimes(120, length=20), streams.cliques(120, 15)
    given = GraphCRP(likelihood=GIVEN, window=15, n_particles=9)
    follow(record, "given", given, X, probes=PROBES, parents=parents)
    waits = GraphCRP(window=15, n_particles=9, warmup=40, alpha=0.4)
    follow(record, "waits", waits, X, probes=PROBES, parents=parents)


@case
def graph_crp_gibbs(record):
    X = streams.regimes(40, length=8)
    short = {"n_chains": 2, "n_sweeps": 10, "burn_in": 5, "seed": 1}
    ways = {"parents": streams.cliques(40, 10)}, {"edges": [[i, i + 1] for i in range(39)]}
    for way in ways:
        for alpha in (0.5, ("gamma", 1.0, 1.0)):
            name = f"{next(iter(way))}.{'drawn' if isinstance(alpha, tuple) else 'known'}"
            draws = sample_graph_crp(X, GIVEN, alpha=alpha, **way, **short)
            for field in ("labels", "log_joint", "n_clusters", "alpha"):
                record.add(f"{name}.{field}", getattr(draws, field))


@case
def graph_ibp_gibbs(record):
    X = streams.features(24)
    graphs = {"window": 4, "parents": streams.cliques(24, 6)}
    for name, graph in graphs.items():
        draws = sample_graph_ibp(X, graph=graph, n_sweeps=20, burn_in=10, seed=1)
        _features(record, f"{name}.unknown", draws)
        draws = sample_graph_ibp(
            X,
            LinearGaussian(0.3, 2.0),
            graph=graph,
            alpha=1.0,
            n_chains=2,
            n_sweeps=15,
            burn_in=5,
            seed=2,
        )
        _features(record, f"{name}.known", draws)


def _features(record, name, draws):
    for field in ("alpha", "ratio", "log_joint", "best"):
        record.add(f"{name}.{field}", getattr(draws, field))
    record.add(f"{name}.counts", [Z.shape[1] for Z in draws.features])
    record.add(f"{name}.best_features", draws.features[draws.best])
    record.add(f"{name}.shared", draws.shared())


@case
def group_dp(record):
    X = streams.regimes(160, length=20)
    rng = np.random.default_rng(19)
    groups = [("a", "b", "c")[g] for g in rng.integers(0, 3, 160)]
    views = ["groups", "correlations"]
    model = GroupDP(likelihood=GIVEN, n_particles=7, n_shared=10)
    follow(record, "one", model, X, probes=PROBES, views=views, group=groups)
    model = GroupDP(n_particles=7, n_shared=(8, 5), moves=3, warmup=40, seed=2)
    pairs = [("x" if g == "c" else "y", g) for g in groups]
    follow(record, "two", model, X, probes=PROBES, views=views, group=pairs)
    model = GroupDP(likelihood=GIVEN, n_particles=7, n_shared=10, markov=True)
    follow(record, "markov", model, X, probes=PROBES, views=["transitions"])
    model = GroupDP(likelihood="gamma_poisson", n_particles=7, warmup=30)
    t = streams.times(160)
    N = streams.counts(160)
    follow(record, "times", model, N, t, probes=[dict(enumerate(N[0]))], at=float(t[-1]))


@case
def group_dp_learned(record):
    X = streams.regimes(120, length=20)
    groups = [("x" if i % 2 else "y", "abc"[i % 3]) for i in range(120)]
    model = GroupDP(
        likelihood=GIVEN, n_particles=7, n_shared=(8, 5), alpha=("gamma", 1.0, 1.0), seed=3
    )
    follow(record, "two", model, X, probes=PROBES, views=["correlations"], group=groups)
    model = GroupDP(
        likelihood=GIVEN, n_particles=7, n_shared=8, markov=True, alpha=("gamma", 1.0, 1.0)
    )
    follow(record, "markov", model, X, probes=PROBES, views=["transitions", "alpha_mean"])


@case
def group_dp_hierarchical(record):
    X = streams.regimes(120, length=20)
    groups = ["abc"[i % 3] for i in range(120)]
    model = GroupDP(likelihood=GIVEN, n_particles=7, gamma=1.5)
    follow(record, "known", model, X, probes=PROBES, views=["correlations"], group=groups)
    model = GroupDP(
        likelihood=GIVEN, n_particles=7, gamma=1.5, markov=True, alpha=("gamma", 1.0, 1.0)
    )
    follow(record, "markov", model, X, probes=PROBES, views=["transitions", "alpha_mean"])


@case
def group_dp_gibbs(record):
    X = streams.regimes(40, length=8)
    ways = {"one": (10, list("abcd") * 10), "two": ((6, 4), [("x", "a"), ("y", "b")] * 20)}
    for name, (n_shared, group) in ways.items():
        for alpha in (0.5, ("gamma", 1.0, 1.0)):
            draws = sample_group_dp(
                X,
                GIVEN,
                group=group,
                n_shared=n_shared,
                alpha=alpha,
                n_chains=2,
                n_sweeps=10,
                burn_in=5,
                seed=1,
            )
            name_of = f"{name}.{'drawn' if isinstance(alpha, tuple) else 'known'}"
            for field in ("labels", "auxiliary", "log_joint", "n_clusters", "alpha"):
                record.add(f"{name_of}.{field}", getattr(draws, field))
            record.add(f"{name_of}.density", draws.log_predictive(X[:5], group[:5]))
    draws = sample_group_dp(X, GIVEN, markov=True, n_chains=2, n_sweeps=10, burn_in=5, seed=1)
    for field in ("labels", "auxiliary", "log_joint", "n_clusters", "alpha"):
        record.add(f"markov.{field}", getattr(draws, field))
    record.add("markov.density", draws.log_predictive(X[:5]))


@case
def tv_ibp(record):
    X = streams.features()
    views = ["n_features", "noise", "loadings", "assignments"]
    small = {"n_particles": 7, "moves": 4, "window": 20}
    probes = [{0: 3.1, 1: 0.0, 2: 2.9, 3: 0.0}]
    gapped = [dict(zip(("x0", "x1", "x2"), (3.1, 0.0, 2.9), strict=True))]
    for name, rows, options in (
        ("unknown", X, {"warmup": 30}),
        ("missing", streams.with_gaps(X), {"missing": True, "warmup": 25, "seed": 2}),
        ("known", X, {"sigma_x": 0.3, "sigma_y": 3.0, "baseline": False}),
        ("baseline", X + 20.0, {"baseline": True, "warmup": 20, "alpha": 2.0}),
    ):
        model = follow(
            record, name, TimeVaryingIBP(**small, **options), rows, views=views,
            probes=gapped if name == "missing" else probes,
        )  # fmt: skip
        probe = (gapped if name == "missing" else probes)[0]
        record.add(f"{name}.one", model.transform_one(probe))
        record.add(f"{name}.without_noise", model.reconstruct_one(probe))
        record.add(f"{name}.many", model.transform_many(rows[:20]))
        record.add(f"{name}.reconstructed", model.reconstruct(rows[:20]))
    t = streams.times(len(X))
    timed = TimeVaryingIBP(**small, sigma_x=0.3, sigma_y=3.0, baseline=False)
    follow(record, "times", timed, X, t, probes=probes, at=float(t[-1]))
