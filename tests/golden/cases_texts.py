"""Cases of epochs, texts, vectors of texts, trees and language."""

import numpy as np
import pytest

from streamddcrp import (
    BaseMeasure,
    Corpus,
    EmbeddingStream,
    LinkLanguageModel,
    NestedCRPComponents,
    NestedCRPTopics,
    TemporalDPM,
    TextStream,
    evidence_surface,
    fit_language,
    fit_nested_components,
    fit_nested_topics,
    fit_temporal_dpm,
    sample_nested_topics,
    sample_temporal_dpm,
)
from tests.golden import streams
from tests.golden.cases import case
from tests.golden.streams import follow

PROBES = ({0: 0.4, 1: -3.0}, {0: 9.0, 1: 9.0})
SAID = ("oil price up", "unheard of", "")
EPOCHS = ["trajectories", "n_epochs"]


def _epochs(n=240, seed=21):
    """Rows of clusters that drift, come and go, and their times, several rows a time."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.integers(0, 16, n)) * 0.5
    z = (rng.integers(0, 3, n) + (t > 3.5)) % 4
    centres = rng.normal(0, 8, (4, 2))
    return centres[z] + 0.4 * t[:, None] + rng.normal(size=(n, 2)), t


def _labels(record, name, model):
    record.add(f"{name}.final", model.final_labels())
    record.add(f"{name}.window", model.final_labels(window=True))


@case
def temporal_numbers(record):
    X, t = _epochs()
    for name, rows, options in (
        ("values", X, {"warmup": 30}),
        ("period", streams.with_gaps(X), {"epoch": "2s", "warmup": 40, "lag": 1}),
        ("decay", X, {"alpha": 0.5, "decay": ("window", 3), "lag": 0, "warmup": 30}),
        ("width", X, {"epoch": 1.0, "window": 2, "n_sweeps": 2, "likelihood": "gaussian"}),
    ):
        model = TemporalDPM(**options)
        probes = [{"x0": 0.4, "x1": -3.0}, {"x1": 9.0}] if name == "period" else PROBES
        model = follow(record, name, model, rows, t, probes=probes, at=float(t[-1]), views=EPOCHS)
        record.add(f"{name}.later", model.predict_proba_one(probes[0], 11.0))
        _labels(record, name, model)


@case
def temporal_rows(record):
    """Epochs of numbers of rows, and epochs that are batches, closed by hand at the end."""
    X, _ = _epochs()
    model = TemporalDPM(epoch=("rows", 30), warmup=50, lag=2)
    model = follow(record, "rows", model, X, probes=PROBES, views=EPOCHS)
    _labels(record, "rows", model)
    model = TemporalDPM(warmup=30)
    model = follow(record, "batches", model, X, probes=PROBES, views=EPOCHS)
    model.close()
    _labels(record, "batches", model)
    record.add("closed", model.summary())
    waiting = TemporalDPM(epoch=("rows", 30))
    waiting.learn_many(X[:20])
    record.state(waiting, "waiting")


@case
def temporal_families(record):
    X, t = _epochs(160)
    N = streams.counts(160, 2)
    for name, likelihood, rows in (
        ("normal_wishart", "normal_wishart", streams.with_gaps(X)),
        ("normal_gamma", "normal_gamma", X),
        ("gamma_poisson", ("gamma_poisson", 1.0, 0.1), N),
        ("beta_bernoulli", "beta_bernoulli", streams.bits(160)),
        ("dirichlet", ("dirichlet_multinomial", 0.5, 2), N),
        ("product", ("product", [("normal_gamma", [0]), ("gamma_poisson", [1])]), None),
    ):
        mixed = np.column_stack([X[:, 0], N[:, 1]])
        model = TemporalDPM(likelihood=likelihood, warmup=30, lag=1)
        model = follow(record, name, model, mixed if rows is None else rows, t, views=EPOCHS)
        _labels(record, name, model)


@case
def temporal_texts(record):
    """Words come and leave from epoch to epoch."""
    rows = streams.texts(200)
    t = np.sort(np.random.default_rng(22).integers(0, 30, 200)) * 0.5
    probes = SAID[:2]
    for name, documents, options in (
        ("auto", rows, {"epoch": "1s"}),
        ("words", [row.split() for row in rows], {"likelihood": "text", "lag": 1}),
        ("counts", streams.counted(rows), {"epoch": "3s", "window": 3, "likelihood": "text"}),
    ):
        model = TemporalDPM(**options)
        model = follow(record, name, model, documents, t, probes=probes, at=15.0, views=EPOCHS)
        _labels(record, name, model)


@case
def temporal_batch(record):
    X, t = _epochs(160)
    epochs = [X[t == now] for now in np.unique(t)]
    epochs.insert(3, X[:0])
    fit = fit_temporal_dpm(epochs, max_sweeps=15)
    record.add("learned", fit)
    record.add("known", fit_temporal_dpm(
        epochs, fit.emission, alpha=0.5, decay=("exponential", 2.0), window=3, max_sweeps=5
    ))  # fmt: skip
    draws = sample_temporal_dpm(epochs, n_sweeps=10, burn_in=5, thin=5, seed=0)
    record.add("draws", draws)


@case
def text_stream(record):
    rows, t = streams.texts(400), streams.times(400)
    views = ["decay_scale", "n_words", "merged", "trajectories"]
    for name, options, clock in (
        ("documents", {"lag": 30, "decay": 40.0}, None),
        ("learned", {"lag": 30, "decay": None}, None),
        ("short", {"lag": 2, "decay": 5.0, "alpha": 1.0, "stop_words": ("oil", "the")}, None),
        ("time", {"lag": 20, "decay": ("time", 15.0), "stop_words": None}, t),
        ("learned-time", {"lag": 20, "decay": None}, t),
    ):
        at = None if clock is None else float(t[-1]) + 1.0
        model = TextStream(**options)
        model = follow(record, name, model, rows, clock, probes=SAID, at=at, views=views)
        _labels(record, name, model)


@case
def text_stream_forms(record):
    """Long texts, lists of words and counts; stories that merge and split."""
    long = streams.texts(300, seed=23, longest=30)
    model = TextStream(lag=60, decay=80.0, alpha=8.0)
    follow(record, "long", model, long, probes=SAID, views=["merged", "trajectories"])
    follow(record, "words", TextStream(lag=20), [text.split() for text in long[:120]])
    follow(record, "counts", TextStream(lag=20), streams.counted(long[:120]))
    rng = np.random.default_rng(24)
    own = [[f"w{w}" for w in rng.choice(2000, 20)] for _ in range(8)]
    both = [
        " ".join(rng.permutation(own[rng.integers(0, 2 if i < 150 else 8)])[:9]) for i in range(400)
    ]
    follow(record, "topics", TextStream(lag=150, decay=200.0), both, views=["merged"])


@case
def text_stream_languages(record):
    """German from the hundredth text on, then Spanish as well."""
    pytest.importorskip("stop_words")
    rows, rng = streams.texts(300, seed=26), np.random.default_rng(26)
    german = ["der", "die", "das", "und", "nicht", "ein", "auf", "mit", "dem", "von"]
    spanish = ["el", "los", "las", "que", "por", "con", "una", "para", "como", "pero"]
    for i in range(100, 300):
        more = spanish if i > 180 and i % 2 else german
        rows[i] = " ".join([rows[i], *rng.choice(more, 3, replace=False)])
    model = TextStream(lag=30, decay=40.0, stop_words="auto")
    follow(record, "auto", model, rows, probes=SAID, views=["languages", "n_words", "merged"])


@case
def embedding_stream(record):
    rng = np.random.default_rng(25)
    centres = rng.normal(size=(5, 24))
    z = (rng.integers(0, 2, 300) + np.arange(300) // 60) % 5
    X = centres[z] + 0.5 * rng.normal(size=(300, 24))
    t = streams.times(300)
    for name, options, clock in (
        ("summed", {"lag": 40, "decay": 60.0}, None),
        ("given", {"lag": 20, "rho": 0.4, "temper": 0.5, "alpha": 3.0}, None),
        ("times", {"lag": 30, "decay": 25.0}, t),
    ):
        at = None if clock is None else float(t[-1])
        probes = [dict(enumerate(row.tolist())) for row in centres[:2]]
        model = EmbeddingStream(**options)
        model = follow(record, name, model, X, clock, probes=probes, at=at)
        _labels(record, name, model)


@case
def nested_topics(record):
    X = streams.corpus(150)
    for name, options in {
        "plain": {"window": 60, "max_nodes": 64},
        "forgets": {"window": 30, "forgetting": 0.7, "max_nodes": 16, "revisits": 2},
        "deep": {"window": 40, "depth": 4, "eta": (1.0, 0.3, 0.2, 0.1), "gamma": 0.5},
    }.items():
        model = NestedCRPTopics(**options)
        model = follow(record, name, model, X, views=["growth"])
        record.add(f"{name}.paths", model.window_paths())
        record.add(f"{name}.placed", model.paths_many(X[:20]))
        record.add(f"{name}.completed", model.complete_many(X[:20] // 2, X[:20] - X[:20] // 2))
        model.refine()
        record.add(f"{name}.refined", model.summary())
    rows = [text for text in streams.texts(160, longest=12) if text]
    model = NestedCRPTopics(window=20, max_words=30)  # words are forgotten
    model = follow(record, "texts", model, rows, probes=SAID[:2])
    record.add("texts.one", model.transform_one(SAID[0]))


@case
def nested_components(record):
    X = streams.points(400)
    probe = dict(enumerate(X[7].tolist()))
    for name, options in {
        "shallow": {"depth": 2, "warmup": 40, "window": 128},
        "deep": {"warmup": 60, "window": 200, "max_nodes": 6, "seed": 3},
    }.items():
        model = NestedCRPComponents(**options)
        model = follow(record, name, model, X, probes=[probe], views=["growth", "n_refused"])
        record.add(f"{name}.refine", model.refine(10))
        record.add(f"{name}.paths", model.paths_many(X[:60]))
        record.add(f"{name}.one", model.transform_one(probe))
        record.add(f"{name}.reconstructed", model.reconstruct_many(X[:30]))
        record.state(model, f"{name}.refined")
    X = (X > 0.0).astype(float)
    model = NestedCRPComponents(depth=2, warmup=40, window=128, likelihood="bernoulli")
    probe = dict(enumerate(X[7].tolist()))
    model = follow(record, "binary", model, X, probes=[probe], views=["growth", "n_refused"])
    record.add("binary.refine", model.refine(10))
    record.add("binary.reconstructed", model.reconstruct_many(X[:30]))
    record.state(model, "binary.refined")


@case
def nested_batch(record):
    X = streams.corpus(60)
    fit = fit_nested_topics(X, n_starts=2, max_sweeps=4, seed=1)
    record.add("topics.paths", fit.paths)
    record.add("topics.trace", fit.bound_trace)
    record.add("topics.summary", fit.model.summary())
    record.state(fit.model, "topics.state")
    fit = fit_nested_components(streams.points(150), depth=2, max_nodes=6, max_sweeps=30)
    record.add("components.paths", fit.paths)
    record.add("components.trace", fit.bound_trace)
    record.state(fit.model, "components.state")


@case
def nested_gibbs(record):
    X = streams.corpus(30)[:24]
    draws = sample_nested_topics(X, n_sweeps=20, burn_in=10, thin=5, seed=1)
    for field in ("paths", "levels", "log_joint", "n_nodes", "best"):
        record.add(field, getattr(draws, field))


@case
def language_model(record):
    text = " ".join(streams.texts(80))
    words, t = text.split(), streams.times(len(text.split()))
    listed = BaseMeasure.from_counts(streams.texts(60, seed=30), n_words=500)
    for name, decay, base, clock in (
        ("exponential", ("exponential", 20.0), 1000, None),
        ("window", ("window", 30), listed, None),
        ("logistic", ("logistic", 12.0), listed, t),
        ("none", "none", 1000, t),
        ("linear", ("linear_window", 25.0), {"oil": 0.25, "price": 0.25, "the": 0.5}, None),
    ):
        model = LinkLanguageModel(alpha=2.0, decay=decay, base_measure=base)
        if isinstance(base, dict):
            words = [w for w in words if w in base]
        half = len(words) // 2
        args = [(words[:half],), (words[half:],)] if clock is None else [
            (words[:half], t[:half]), (words[half:], t[half:])
        ]  # fmt: skip
        record.add(f"{name}.first", model.step_many(*args[0]))
        model = LinkLanguageModel.from_bytes(model.to_bytes())
        if clock is None:
            record.add(f"{name}.scored", model.score_many(words[half:]))
            record.add(f"{name}.proba", model.predict_proba_one())
            record.add(f"{name}.one", model.score_one("oil"))
            model.learn_one("oil")
        record.add(f"{name}.second", model.step_many(*args[1]))
        record.add(f"{name}.objective", model.objective)
        record.add(f"{name}.n_tables", model.n_tables)
        record.add(f"{name}.links", model.links(words[:30]))
        model.new_document()
        record.add(
            f"{name}.new", model.step_many(words[:40], *(() if clock is None else (t[:40],)))
        )
        record.state(model, f"{name}.state")


@case
def language_fits(record):
    documents = [" ".join(streams.texts(40, seed=seed)) for seed in (31, 32)]
    corpus = Corpus.from_documents(documents, base_measure=500)
    record.add("corpus", corpus)
    decays = [("exponential", 5.0), ("window", 20), ("logistic", 10.0), "none"]
    surface = evidence_surface(corpus, decays, [0.5, 2.0, 8.0])
    record.add("surface", [surface.log_evidence, surface.crp])
    record.add("factor", surface.log_bayes_factor(same_alpha=False))
    for family in ("exponential", "logistic", "linear_window", "window", "none"):
        fit = fit_language(corpus, family)
        record.add(f"fit.{family}", fit)
        factors = [fit.log_bayes_factor, fit.log_bayes_factor_same_alpha]
        record.add(f"fit.{family}.factors", factors)
    clocks = [streams.times(len(text.split())) for text in documents]
    timed = Corpus.from_documents(
        [text.split() for text in documents], base_measure=500, times=clocks
    )
    record.add("timed", fit_language(timed))
