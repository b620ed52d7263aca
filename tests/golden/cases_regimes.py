"""Cases of the sequential ddCRP, of keys, and of alarms and changes."""

import numpy as np
import pyarrow as pa

from streamddcrp import (
    Alarm,
    Keyed,
    RegimeAnomalyDetector,
    Seasonal,
    SeqDDCRP,
    WindowFeatures,
    change_points,
    fit_seqddcrp,
    label_changes,
    relocate_changes,
)
from streamddcrp.decay import Exponential, Window
from streamddcrp.likelihoods import (
    Autoregression,
    DirichletMultinomial,
    GammaPoisson,
    NormalGamma,
    Product,
)
from tests.golden import streams
from tests.golden.cases import case
from tests.golden.streams import follow

GIVEN = ("normal_gamma", 0.0, 0.05, 1.5, 0.5)
SMALL = {"window": 16, "sweep_every": 4}
PROBES = ({0: 0.4, 1: -3.0}, {0: 9.0, 1: 9.0}, {0: 0.4})
GAPPED = ({"x0": 0.4, "x1": -3.0}, {"x1": 9.0})  # of tables with missing values


@case
def seqddcrp_defaults(record):
    X = streams.with_gaps(streams.regimes(320))
    model = follow(record, "run", SeqDDCRP(), X, probes=GAPPED, views=["recent_labels"])
    record.add("nbytes", model.nbytes)


@case
def seqddcrp_short_series(record):
    model = SeqDDCRP(preset="short-series", warmup=40, **SMALL)
    follow(record, "run", model, streams.waves(), probes=[{0: 0.4}], views=["recent_labels"])


@case
def seqddcrp_given(record):
    """Few tables, so that room runs out; the prior is given, so that there is no warm-up."""
    X = streams.regimes(length=12)
    full = SeqDDCRP(likelihood=GIVEN, max_tables=4, n_sweeps=2, look_back=8, **SMALL)
    follow(record, "full", full, X, probes=PROBES[:2], views=["recent_labels"])
    plain = SeqDDCRP(
        likelihood=GIVEN, alpha=0.3, recall=False, learn_prior=False, memory=np.inf, look_back=0,
        birth_threshold=0.3, **SMALL,
    )  # fmt: skip
    follow(record, "plain", plain, X, probes=PROBES[:2])
    forgets = SeqDDCRP(likelihood=GIVEN, gamma=1.0, memory=10.0, window=8, sweep_every=8)
    follow(record, "forgets", forgets, X, probes=PROBES[:2])


@case
def seqddcrp_wide(record):
    """The whole window, many tables: merges and splits by the moves of the end of a block."""
    model = SeqDDCRP(likelihood=GIVEN, alpha=2.0, birth_threshold=0.01, n_sweeps=2)
    X = streams.regimes(400, 1, seed=20, length=9)
    follow(record, "run", model, 0.5 * X, probes=[{0: 0.4}], views=["recent_labels"])


@case
def seqddcrp_times(record):
    X, t = streams.regimes(), streams.times(240)
    after = float(t[-1]) + 3.0
    model = SeqDDCRP(decay=("logistic", 6.0, 2.0), warmup=64, **SMALL)
    follow(record, "learned-unit", model, X, t, probes=PROBES[:2], at=after)
    model = SeqDDCRP(likelihood=GIVEN, time_unit=5.0, **SMALL)
    follow(record, "given-unit", model, X, t, probes=PROBES[:2], at=after)
    model = SeqDDCRP(likelihood=GIVEN, decay=("linear_window", 30.0), **SMALL)
    follow(record, "waits-for-unit", model, X, t, probes=PROBES[:2], at=after)


@case
def seqddcrp_decays(record):
    X = streams.regimes(160, length=20)
    for name, decay in {
        "none": "none",
        "window": ("window", 5),
        "linear_window": ("linear_window", 10),
        "logistic": ("logistic", 8.0),
        "product": Exponential(50.0) * Window(20.0),
        "sum": 0.5 * Exponential(4.0) + 0.5 * Exponential(30.0),
    }.items():
        model = SeqDDCRP(likelihood=GIVEN, decay=decay, window=20, sweep_every=5)
        follow(record, name, model, X, probes=PROBES[:1])


def _square(distance):
    return 1.0 / (1.0 + np.asarray(distance) ** 2)


@case
def seqddcrp_own_decay(record):
    """A decay that is a function; it cannot be kept, so the model is not restored."""
    model = SeqDDCRP(likelihood=GIVEN, decay=_square, **SMALL)
    X = streams.regimes(160, length=20)
    record.add("step", model.step_many(X))
    record.add("objective", model.objective)
    record.add("summary", model.summary())


@case
def seqddcrp_gaussian_families(record):
    X = streams.with_gaps(streams.regimes(160, 3, seed=12, length=20))
    model = SeqDDCRP(likelihood="normal_wishart", warmup=40, **SMALL)
    follow(record, "normal_wishart", model, X, probes=GAPPED)
    W = streams.waves()
    model = SeqDDCRP(likelihood=("autoregression", 2), warmup=60, **SMALL)
    follow(record, "autoregression", model, W, probes=[{0: 1.0}])
    model = SeqDDCRP(likelihood=("regression", ["x2"]), warmup=60, **SMALL)
    follow(record, "regression", model, X, probes=GAPPED)


@case
def seqddcrp_count_families(record):
    N, B = streams.counts(), streams.bits()
    for name, likelihood, X in (
        ("gamma_poisson", ("gamma_poisson", 1.0, 0.2), N),
        ("gamma_poisson_scaled", "gamma_poisson", N),
        ("beta_bernoulli", ("beta_bernoulli",), streams.with_gaps(B)),
        ("dirichlet", ("dirichlet_multinomial", 0.5, 3), N),
        ("auto_counts", "auto", N.astype(int)),
        ("auto_bits", "auto", B.astype(int)),
    ):
        model = SeqDDCRP(likelihood=likelihood, warmup=70, **SMALL)
        probe = [
            X.slice(99).to_pylist()[0]
            if isinstance(X, pa.Table)
            else dict(enumerate(X[99].tolist()))
        ]
        follow(record, name, model, X, probes=probe)


@case
def seqddcrp_words(record):
    """An open vocabulary: new words come in every batch, and in a prediction."""
    model = SeqDDCRP(likelihood=DirichletMultinomial(0.3), **SMALL)
    rows = [x for x in streams.counted(streams.texts(120)) if x]
    for x in rows:
        model.learn_one(x)
    record.add("score", [model.score_one(x) for x in (rows[-1], {"unheard": 2, "oil": 1})])
    record.add("label", [model.predict_one(x) for x in rows])
    record.add("events", model.events())
    record.add("recent", model.recent_labels())
    record.add("objective", model.objective)
    record.add("reference", model.reference().score_one({"unheard": 2, "oil": 1}))
    record.state(model)


@case
def seqddcrp_products(record):
    probe = {"flow": 1.0, "count": 2, "bit": 1, "open": True}
    model = SeqDDCRP(**SMALL)
    follow(record, "auto", model, streams.mixed(), probes=[probe, {"count": 40}])
    parts = [(NormalGamma(0.0, 0.05, 1.5, 1.0), [0]), (GammaPoisson(1.0, 0.1), [1, 2])]
    X = np.column_stack([streams.regimes(200, 1), streams.counts(200, 2)])
    model = SeqDDCRP(likelihood=Product(parts), **SMALL)
    follow(record, "given", model, X, probes=[{0: 1.0, 1: 3, 2: 0}])


@case
def seqddcrp_warm_up(record):
    """States within the warm-up, before its first stage and after."""
    for n in (1, 5, 30):
        model = SeqDDCRP()
        record.add(f"{n}.step", model.step_many(streams.mixed().slice(0, n)))
        record.add(f"{n}.objective", model.objective)
        record.add(f"{n}.proba", model.predict_proba_one({"flow": 1.0, "count": 2}))
        record.state(model, f"{n}.state")


@case
def seqddcrp_reference(record):
    X = streams.regimes()
    model = SeqDDCRP(warmup=40, **SMALL)
    model.learn_many(X[:150])
    some = model.reference()
    one = model.reference(ids=model.summary()["id"].to_pylist()[:1])
    model.learn_many(X[150:])
    for name, reference in {"some": some, "one": one, "late": model.reference()}.items():
        record.add(f"{name}.ids", reference.ids)
        record.add(f"{name}.weights", reference.weights)
        record.add(f"{name}.scores", reference.score_many(X[100:200]))
        record.add(f"{name}.one", reference.score_one({0: 1.0}))
        record.state(reference, f"{name}.state")
    own = SeqDDCRP(likelihood=Autoregression(2), warmup=40)
    own.learn_many(streams.waves())
    record.add("own.scores", own.reference().score_many(streams.waves(seed=3)))


@case
def keyed(record):
    """Three keys of which one fits into memory; the others go to the disk and come back."""
    X = streams.regimes(240, 1, length=15)[:, 0]
    rng = np.random.default_rng(13)
    rows = pa.table({"pump": [f"p{k}" for k in rng.integers(0, 3, 240)], "flow": X})
    model = SeqDDCRP(likelihood=GIVEN, **SMALL)
    with Keyed(model, by="pump", memory_limit="40 kB") as fleet:
        parts = [fleet.step_many(rows.slice(a, 40)) for a in range(0, 200, 40)]
        for x in rows.slice(200).to_pylist():
            fleet.learn_one(x)
        record.add("step", pa.Table.from_batches(parts))
        record.add("events", fleet.events())
        record.add("summary", fleet.summary())
        record.add("objective", fleet.objective)
        record.add("keys", fleet.keys)
        record.add("proba", fleet.predict_proba_one({"pump": "p1", "flow": 1.0}))
        record.add("score", [fleet.score_one({"pump": p, "flow": 1.0}) for p in ("p0", "new")])
        with Keyed.from_bytes(fleet.to_bytes()) as again:
            record.add("after", again.step_many(rows.slice(100, 60)))
            for key in again.keys:
                record.state(again.model_of(key), f"state.{key}")


@case
def alarm(record):
    rng = np.random.default_rng(14)
    scores = rng.exponential(size=1500)
    scores[900:915] += 9.0
    scores[[40, 1200]] = np.nan
    for name, options in {"one": {"rate": 0.01}, "mean": {"rate": 0.02, "average": 5}}.items():
        model = Alarm(**options)
        parts = []
        for a, b in ((0, 50), (50, 51), (51, 800), (800, 1500)):
            parts.append(model.step_many(scores[a:b]))
            model = Alarm.from_bytes(model.to_bytes())
        for field in ("score", "threshold", "alarm"):
            record.add(f"{name}.{field}", np.concatenate([getattr(p, field) for p in parts]))
        record.add(f"{name}.last", [model.threshold, model.averaged(3.0)])
        record.state(model, f"{name}.state")


@case
def detector(record):
    X = streams.regimes(320, 1, length=160, seed=15)
    plain = RegimeAnomalyDetector(SeqDDCRP(warmup=40, **SMALL), rate=0.02)
    follow(record, "plain", plain, X, probes=[{0: 30.0}], views=["threshold"])
    relative = RegimeAnomalyDetector(
        SeqDDCRP(likelihood=("autoregression", 1), warmup=40, **SMALL),
        rate=0.02, average=5, reference_after=60,
    )  # fmt: skip
    follow(record, "relative", relative, X, probes=[{0: 30.0}], views=["threshold"])


@case
def window_features(record):
    t = np.arange(900.0)
    signal = np.column_stack([np.sin(t * 0.5), np.cos(t * 0.25)])
    signal[450:, 0] = np.sign(signal[450:, 0])
    signal += 0.1 * np.random.default_rng(16).normal(size=signal.shape)
    second = pa.array(signal[:, 1], mask=(t > 200) & (t < 210))
    rows = pa.table({"a": signal[:, 0], "b": second})
    for name, options in {"given": {"period": 13}, "found": {"warmup": 100}}.items():
        model, tables, positions = WindowFeatures(**options), [], []
        for a, b in ((0, 99), (99, 100), (100, 500), (500, 900)):
            table, at = model.step_many(rows.slice(a, b - a))
            tables.append(table)
            positions.append(at)
            model = WindowFeatures.from_bytes(model.to_bytes())
        record.add(f"{name}.window", model.window)
        record.add(f"{name}.features", pa.Table.from_batches(tables))
        record.add(f"{name}.positions", np.concatenate(positions))
        record.add(f"{name}.last", model.transform_one({"a": 0.0, "b": 0.0}))
        record.state(model, f"{name}.state")


@case
def seasons(record):
    hours = np.arange(600.0)
    noise = np.random.default_rng(18).normal(size=(600, 2))
    signal = noise + 4.0 * np.sin(2 * np.pi * hours / 24 + np.array([[0.0], [1.0]])).T
    signal[400:] += 5.0
    second = pa.array(signal[:, 1], mask=(hours > 200) & (hours < 210))
    rows, times = pa.table({"a": signal[:, 0], "b": second}), 3600.0 * hours + 1.7e9
    for name, period in {"given": ("day", "12h"), "found": "auto"}.items():
        for model in Seasonal(period), SeqDDCRP(season=period):
            kind, tables = f"{name}.{type(model).__name__}", []
            for a, b in ((0, 130), (130, 131), (131, 500), (500, 600)):
                tables.append(model.step_many(rows.slice(a, b - a), times[a:b]))
                model = type(model).from_bytes(model.to_bytes())  # noqa: PLW2901
            record.add(f"{kind}.out", pa.Table.from_batches(tables))
            record.state(model, f"{kind}.state")


@case
def changes(record):
    p = np.abs(np.sin(np.arange(200) * 0.37)) ** 0.2
    p[[5, 60]] = np.nan
    rows, armed = change_points(p[:90], 0.95)
    record.add("first", [*rows, armed])
    rows, armed = change_points(p[90:], 0.95, armed=armed)
    record.add("rest", [*rows, armed])
    labels = np.random.default_rng(17).integers(0, 2, 300) + np.arange(300) // 60
    record.add("labels", label_changes(labels))
    record.add("held", label_changes(labels, hold=5))
    signal = np.sin(np.arange(300) * 0.4)
    signal[150:] += 0.5 * np.sin(np.arange(150) * 0.9)
    record.add("relocated", relocate_changes([170], signal, within=60))


@case
def seqddcrp_batch(record):
    X = streams.regimes(60, 2, length=15)
    family = NormalGamma(0.0, 0.05, 1.5, 0.5)
    fit = fit_seqddcrp(X, family, alpha=0.3, decay=("exponential", 8.0))
    record.add("exponential", fit)
    fit = fit_seqddcrp(
        X, family, alpha=0.3, decay=("exponential", 8.0), init=fit.links, max_sweeps=3
    )
    record.add("again", fit)
    fit = fit_seqddcrp(X, family, alpha=0.3, decay=("window", 6.0), t=streams.times(60))
    record.add("window", fit)
    N = streams.counts(60)
    record.add("counts", fit_seqddcrp(N, ("gamma_poisson", 1.0, 0.2), alpha=0.3, decay="none"))
    record.add("masked", fit_seqddcrp(
        streams.masked(X), ("normal_wishart",), alpha=0.3,
        decay=("logistic", 6.0),
    ))  # fmt: skip
