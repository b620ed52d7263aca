"""Cases of what the streams of the other cases do not reach."""

import numpy as np
import pyarrow as pa

from streamddcrp import (
    Distances,
    EmbeddingStream,
    LinkLanguageModel,
    NestedCRPComponents,
    NestedCRPTopics,
    SeqDDCRP,
    TextStream,
    TimeVaryingIBP,
    fit_nested_topics,
    fit_seqddcrp,
    sample_ddcrp,
    sample_nested_topics,
)
from streamddcrp.likelihoods import make_likelihood
from streamddcrp.reachability import LaplacianInverse
from tests.golden import streams
from tests.golden.cases import case
from tests.golden.streams import follow

GIVEN = ("normal_gamma", 0.0, 0.05, 1.5, 1.5)


@case
def rare_seqddcrp_splits(record):
    """A few rows in hundreds are another cluster, too few for the window to show it."""
    rng = np.random.default_rng(0)
    X = (rng.random(600) < 0.05)[:, None] * 3.0 + rng.normal(size=(600, 3))
    options = {"window": 4, "sweep_every": 2, "alpha": 20.0, "look_back": 0}
    for memory in (np.inf, 200.0, 2.0):
        model = SeqDDCRP(
            likelihood=GIVEN, decay=("exponential", 2.0), memory=memory,
            birth_threshold=1.0 - 1e-9, **options,
        )  # fmt: skip
        follow(record, f"memory-{memory}", model, X, probes=[{0: 3.0, 1: 3.0, 2: 3.0}])
    rng = np.random.default_rng(1)
    X = (rng.random(300) < 0.1)[:, None] * 1.2 + rng.standard_t(3, size=(300, 3))
    model = SeqDDCRP(  # a birth is tried and undone
        likelihood=GIVEN, decay=("exponential", 2.0), window=6, sweep_every=2, alpha=20.0,
        look_back=8, birth_threshold=1.0 - 1e-9,
    )  # fmt: skip
    follow(record, "undone", model, X)
    model = SeqDDCRP(likelihood=GIVEN, recall=False, n_sweeps=0, max_tables=2, window=4)
    follow(record, "no-sweeps", model, 3.0 * X)


def _families(n, length):
    """Every likelihood but the Gaussians, with ``n`` rows for it."""
    X, N, B = streams.regimes(n, 2, length=length), streams.counts(n, 2), streams.bits(n, 2)
    mixed = np.column_stack([X[:, 0], N[:, 1]])
    return (
        ("regression", ("regression", [1]), X),
        ("autoregression", ("autoregression", 1), streams.waves(n)),
        ("dirichlet", ("dirichlet_multinomial", 0.5, 2), N),
        ("bernoulli", "beta_bernoulli", B),
        ("poisson", "gamma_poisson", N),
        ("product", ("product", [("normal_gamma", [0]), ("gamma_poisson", [1])]), mixed),
    )


@case
def rare_seqddcrp_batch(record):
    X = streams.regimes(40, 2, length=10)
    for name, likelihood, rows in _families(40, 10):
        fit = fit_seqddcrp(rows, likelihood, alpha=0.5, decay=("window", 8), max_sweeps=20)
        record.add(name, fit)
    fit = fit_seqddcrp(X, "normal_gamma", alpha=0.5, decay=("window", 8), n_starts=2, seed=1)
    record.add("starts", fit)
    record.add("numbers", [fit.bound, fit.n_sweeps, fit.expected_n_tables])


def _apart(i, j):
    return np.abs(i - j) + 0.25 * (i % 3)


@case
def rare_ddcrp_gibbs(record):
    X = streams.regimes(24, 2, length=6)
    short = {"n_sweeps": 8, "burn_in": 2, "n_chains": 1, "seed": 1}
    for name, likelihood, rows in (("wishart", "normal_wishart", X), *_families(24, 6)):
        draws = sample_ddcrp(rows, likelihood, alpha=0.5, decay=("exponential", 5.0), **short)
        record.add(f"{name}.collapsed.labels", draws.labels)
        record.add(f"{name}.collapsed.log_joint", draws.log_joint)
        draws = sample_ddcrp(
            rows, likelihood, alpha=0.5, decay=("exponential", 5.0), sequential=False, **short
        )
        record.add(f"{name}.general.links", draws.links)
        record.add(f"{name}.general.log_joint", draws.log_joint)
    long = {"n_sweeps": 70, "burn_in": 2, "n_chains": 1, "seed": 1, "thin": 7}
    for name, options in {
        "none": {"decay": "none"},
        "none-hyper": {"decay": "none", "hyper": "alpha"},
        "none-general": {"decay": "none", "sequential": False},
        "window": {"decay": ("window", 6), "hyper": "decay"},
        "linear": {"decay": ("linear_window", 6.0)},
        "function": {"decay": "none", "distances": Distances.by_function(_apart, 24)},
        "function-back": {
            "decay": ("logistic", 4.0),
            "distances": Distances.by_function(_apart, 24, sequential=True),
        },
    }.items():
        draws = sample_ddcrp(X, "normal_gamma", alpha=0.5, **options, **long)
        for field in ("links", "log_joint", "alpha", "decay_parameter"):
            record.add(f"{name}.{field}", getattr(draws, field))


@case
def rare_likelihood_draws(record):
    X, N, B = streams.regimes(30, 2), streams.counts(30, 2), streams.bits(30, 2)
    for name, spec, rows in (
        ("gamma", "normal_gamma", X),
        ("wishart", "normal_wishart", X),
        ("poisson", "gamma_poisson", N),
        ("bernoulli", "beta_bernoulli", B),
        ("dirichlet", ("dirichlet_multinomial", 0.5, 2), N),
        ("product", ("product", [("normal_gamma", [0]), ("gamma_poisson", [1])]),
         np.column_stack([X[:, 0], N[:, 1]])),
    ):  # fmt: skip
        family = make_likelihood(spec).scaled(rows)
        stats = family.suffstats(rows[:10]).sum(axis=0)
        record.add(name, family.sample(np.random.default_rng(1), stats, 5))


@case
def rare_texts(record):
    """Splits and merges; long texts; letters of all widths; decays that are short."""
    rng = np.random.default_rng(3)
    own = [[f"w{w}" for w in rng.choice(60, 20)] for _ in range(8)]
    mixed = [" ".join(rng.permutation(own[rng.integers(0, 8)])[:6]) for _ in range(400)]
    views = ["merged", "trajectories"]
    follow(record, "moves", TextStream(lag=150, decay=200.0), mixed, views=views)
    t = streams.times(400)
    timed = TextStream(lag=150, decay=None)
    follow(record, "timed-moves", timed, mixed, t, views=views)
    own = [[f"w{w}" for w in rng.choice(3000, 60)] for _ in range(12)]
    usual = ["said", "today", "new", "year", "people"]
    long = [" ".join([*rng.permutation(own[i // 9 % 12])[:40], *usual]) for i in range(260)]
    follow(
        record,
        "long",
        TextStream(lag=30, decay=60.0, scale="story"),
        long,
        probes=[long[3]],
        views=views,
    )
    follow(
        record,
        "long-moves",
        TextStream(lag=100, decay=300.0, alpha=30.0, scale="story"),
        long[::-1],
    )
    many = [f"{usual[i % 5]} {usual[i // 2 % 5]} a{i // 2} b{i // 2}" for i in range(400)]
    few = [f"x{i // 40} y{i // 40}" for i in range(1500)]
    model = TextStream(lag=60, decay=150.0, alpha=60.0, scale="story")
    follow(record, "wide", model, many + few, views=["n_words"])
    short = TextStream(lag=3, decay=1.0)
    follow(record, "short", short, streams.texts(400), probes=["oil price"])
    jumps = np.cumsum(np.where(np.arange(400) % 90 == 89, 5000.0, 1.0))
    for name, decay in {"jumps": ("time", 8.0), "jumps-learned": None}.items():
        model = TextStream(lag=10, decay=decay)
        follow(record, name, model, streams.texts(400), jumps, probes=["oil"], at=float(jumps[-1]))


@case
def rare_words(record):
    """Characters of one to four bytes, scripts without spaces, words that are too long."""
    said = [
        "Zürich's naïve café", "ΑΘΗΝΑ αθηνα", "東京タワー 東京", "\U0001d518\U0001d52b code",
        "don't can\u2019t", "x" * 70 + " " + "ü" * 40, "ภาษาไทย ภาษา",
        "été ete\u0301", "𠀀𠀁𠀂 zwei", "1,000.5 3rd",
        "e-mail under_score", "東" * 30, "İstanbul ISTANBUL", "ﬁne ﬀ", "a\u200db soft\u00adhyphen",
    ]  # fmt: skip
    rows = [said[i * 7 % 15] + " " + said[i * 4 % 15] for i in range(90)]
    follow(record, "texts", TextStream(lag=10, stop_words=None), rows, probes=said)
    listed = [text.split() for text in rows]
    follow(record, "lists", TextStream(lag=10), listed, probes=[["東京", "x" * 80]])
    model = TextStream(lag=10)
    record.add("arrow", model.step_many(pa.array(rows, pa.large_string()).dictionary_encode()))
    record.add("column", model.step_many(pa.table({"text": rows}).slice(5, 40)))
    record.state(model)


@case
def rare_text_line(record):
    """So many documents that the stretches of the line of stories are joined."""
    rows = [f"{'abcdefgh'[i // 700 % 8] * 3} word{i % 5} other{i % 7}" for i in range(17000)]
    model = TextStream(lag=5, decay=20.0)
    record.add("step", model.step_many(rows))
    record.add("line", model.trajectories())
    record.state(model)


@case
def rare_vectors(record):
    """A decay so short that weights are brought down, and many stories."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(500, 16)) + np.eye(16)[np.arange(500) // 30 % 16] * 6.0
    follow(record, "short", EmbeddingStream(decay=1.0, lag=4), X)
    model = EmbeddingStream(decay=900.0, lag=10, alpha=500.0, temper=1.0, rho=0.5)
    follow(record, "many", model, rng.normal(size=(300, 16)))


@case
def rare_features(record):
    """Features that turn out to be one, and more of them than can be enumerated."""
    rng = np.random.default_rng(2)
    X = (rng.random((60, 3)) < 0.5) @ rng.normal(0, 2, (3, 3)) + 0.5 * rng.normal(size=(60, 3))
    known = {"sigma_x": 0.5, "sigma_y": 2.0, "baseline": False}
    model = TimeVaryingIBP(n_particles=11, moves=2, window=15, alpha=2.0, seed=2, **known)
    follow(record, "merges", model, X, views=["loadings", "assignments"])
    X = (rng.random((60, 12)) < 0.4) @ rng.normal(0, 2, (12, 16)) + 0.5 * rng.normal(size=(60, 16))
    model = TimeVaryingIBP(n_particles=7, moves=3, window=20, alpha=5.0, **known)
    follow(record, "many", model, X, views=["loadings"])


def _walk(node):
    return [node, *(below for child in node["children"] for below in _walk(child))]


@case
def rare_trees(record):
    model = NestedCRPTopics(window=40)
    rows = streams.texts(120, longest=12)  # empty ones, too
    follow(record, "topics", model, rows, probes=["", "oil price"])
    model.learn_many(rows)
    nodes = _walk(model.tree(3))
    for field in ("id", "level", "weight", "born"):
        record.add(f"topics.{field}", [node[field] for node in nodes])
    record.add("topics.words", [word for node in nodes for word, _ in node["words"]])
    record.add("topics.probs", [prob for node in nodes for _, prob in node["words"]])
    fit = fit_nested_topics([*rows[:50], "oil oil cup"], n_starts=1, max_sweeps=2)
    record.add("fit.paths", fit.paths)
    record.add("fit.trace", fit.bound_trace)
    model = NestedCRPComponents(depth=2, warmup=40, window=128)
    X = streams.points(200)
    model.learn_many(X)
    nodes = _walk(model.tree())
    record.add("components.vectors", np.array([node["vector"] for node in nodes]))
    record.add("components.one", model.reconstruct_one(dict(enumerate(X[3].tolist()))))
    draws = sample_nested_topics(
        streams.corpus(60), depth=4, alpha=(5.0, 2.0, 1.0, 1.0), gamma=20.0, eta=0.05,
        n_sweeps=5, burn_in=5, thin=1, seed=4,
    )  # fmt: skip
    record.add("gibbs.paths", draws.paths)
    nodes = _walk(draws.tree(n_words=3))
    record.add("gibbs.words", [word for node in nodes for word, _ in node["words"]])


@case
def rare_language(record):
    """Tokens that are numbers, and times within what is learned."""
    rng = np.random.default_rng(5)
    tokens, t = rng.zipf(1.5, 300) % 40, streams.times(300)
    for name, decay in {"window": ("window", 9.0), "own": ("linear_window", 7.0)}.items():
        model = LinkLanguageModel(decay=decay, base_measure=np.full(40, 1.0 / 40))
        record.add(f"{name}.step", model.step_many(tokens, t))
        record.add(f"{name}.one", model.score_one(3, float(t[-1]) + 1.0))
        record.add(f"{name}.log", model.log_prob(0, float(t[-1]) + 1.0))
        record.add(f"{name}.proba", model.predict_proba_one(float(t[-1]) + 1.0))
        record.state(model, f"{name}.state")


@case
def rare_reachability(record):
    rng = np.random.default_rng(6)
    A = np.tril(rng.random((12, 12)), -1)
    inverse = LaplacianInverse.from_links(A / (1.0 + A.sum(axis=1, keepdims=True)))
    for i in range(80):
        row = rng.random(len(inverse))
        inverse.append(row / (1.0 + row.sum()))
        if i % 5 == 4:
            k = 6 + i % 4
            row = rng.random(k)
            inverse.revise(k, row / (1.0 + row.sum()))
        if i % 3 == 2:
            inverse.evict(2)
    record.add("dense.inverse", inverse.to_dense())
    record.add("dense.links", inverse.links)
    record.add("dense.tables", inverse.table_probabilities())
    record.add("dense.sizes", inverse.expected_table_sizes())
    record.add("dense.n_tables", inverse.expected_n_tables())
