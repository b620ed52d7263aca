"""Why: what each part of a row adds to its surprise, against closed forms and brute force."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest
from scipy.stats import beta, nbinom, norm

import streamddcrp
from benchmarks.reasons import blamed, planted
from streamddcrp import (
    EmbeddingStream,
    GroupDP,
    Keyed,
    NestedCRPTopics,
    RegimeAnomalyDetector,
    SeqDDCRP,
    TextStream,
)
from streamddcrp.contract import EVENT_CAPACITY, SWAP, record
from streamddcrp.errors import ConfigError, UnknownKeyError
from streamddcrp.estimator.reasons import asked, differences, explained
from streamddcrp.estimator.standing import chance_of_stay
from streamddcrp.likelihoods import (
    Autoregression,
    BetaBernoulli,
    GammaPoisson,
    NormalGamma,
    NormalWishart,
    Product,
)
from streamddcrp.likelihoods.kernels.parts import explain, outlook
from streamddcrp.likelihoods.turned import Turned
from streamddcrp.likelihoods.warp import Warp
from streamddcrp.models.seqddcrp.kernels.layout import N_EVENTS
from streamddcrp.plots.segments import Numbers
from tests.oracles.reasons import conditional_student, integrated_out, student

PRIOR = (0.3, 0.5, 2.0, 1.5)


def one_table(family, rows):
    """Return prior and posterior of one table with some rows."""
    stats = family.suffstats(rows).sum(axis=0)
    _, hyper, post = family._posteriors(stats)
    return hyper, post


def parts(family, rows, x):
    hyper, post = one_table(family, rows)
    return mixed(family, hyper, post, np.zeros(1), np.asarray(x, float))


def mixed(family, hyper, post, weights, x):
    """Explain a row of a mixture of tables; the first table is the expected one."""
    at, rows, out, view = asked(family, x, None, len(post))
    whole, K = hyper.copy(), len(post)
    explain(family.family, hyper, whole, post, post[0], K, weights, 0, rows, out, view)
    return explained(family, x, at, out, view)


def as_row(values):
    return {f"c{d}": float(v) for d, v in enumerate(values) if v == v}


def test_a_gaussian_column_is_a_students_t():
    rng = np.random.default_rng(0)
    rows, x = rng.normal(size=(7, 3)), np.array([0.2, 4.0, -1.0])
    at, (score, excess), surprise, view = parts(NormalGamma(*PRIOR), rows, x)
    assert at.tolist() == [0, 1, 2]
    for d in range(3):
        law = student(x[d], 7, rows[:, d].sum(), (rows[:, d] ** 2).sum(), PRIOR)
        assert surprise[d] == pytest.approx(-law.logpdf(x[d]), abs=1e-12)
        assert view[:2, d] == pytest.approx([law.mean(), law.std()], rel=1e-12)
        assert surprise[d] - view[2, d] == pytest.approx(law.entropy(), abs=1e-9)
    assert score == pytest.approx(surprise.sum(), abs=1e-12)
    assert excess == pytest.approx(view[2].sum(), abs=1e-12)


@pytest.mark.parametrize("D", [1, 2, 5])
def test_a_correlated_column_is_a_conditional_students_t(D):
    rng = np.random.default_rng(D)
    rows = rng.normal(size=(9, D)) @ rng.normal(size=(D, D)) + 3.0
    x = rows.mean(axis=0) + rng.normal(size=D)
    mean, kappa, scatter, dof = np.linspace(2.5, 3.5, D), 0.7, np.eye(D) * 0.4, D + 1.5
    family = NormalWishart(mean.tolist(), kappa, scatter.tolist(), dof)
    _, (score, excess), surprise, view = parts(family, rows, x)
    for d in range(D):
        law = conditional_student(rows, d, x, mean, kappa, scatter, dof)
        assert surprise[d] == pytest.approx(-law.logpdf(x[d]), rel=1e-9, abs=1e-9)
        assert surprise[d] - view[2, d] == pytest.approx(law.entropy(), abs=1e-8)
        one = NormalWishart([mean[d]], kappa, [[scatter[d, d]]], dof - D + 1.0)
        _, _, _, alone = parts(one, rows[:, [d]], x[[d]])  # the marginal
        assert view[:2, d] == pytest.approx(alone[:2, 0], rel=1e-9)
    assert score == pytest.approx(-family.log_predictive(x, family.suffstats(rows).sum(0))[0])
    assert not np.isnan(excess)


def test_leaving_out_is_integrating_out():
    """By quadrature, under a mixture of two correlated tables."""
    rng = np.random.default_rng(4)
    family = NormalWishart([0.0, 0.0], 0.5, np.eye(2).tolist(), 4.0)
    tables = [rng.normal(m, 1.0, size=(6, 2)).cumsum(axis=1) for m in (0.0, 5.0)]
    stats = np.array([family.suffstats(rows).sum(axis=0) for rows in tables])
    _, hyper, post = family._posteriors(stats)
    x, weights = np.array([1.0, 4.0]), np.log([0.3, 0.7])

    def log_density(row):
        return np.logaddexp.reduce(weights + family.log_predictive(row, stats))

    _, (score, _), surprise, _ = mixed(family, hyper, post, weights, x)
    assert score == pytest.approx(-log_density(x), abs=1e-12)
    for d in range(2):
        rest = integrated_out(log_density, x, d, -3000.0, 3000.0)
        assert surprise[d] == pytest.approx(rest - log_density(x), abs=1e-6)


COUNTS = np.random.default_rng(3).poisson([2.0, 9.0, 0.4], size=(8, 3)).astype(float)
FLAGS = (np.random.default_rng(5).random((9, 3)) < [0.1, 0.5, 0.9]).astype(float)


def test_expectations_of_counts_and_flags_by_enumeration():
    x = np.array([1.0, 30.0, 0.0])
    _, _, surprise, view = parts(GammaPoisson(1.5, 0.7), COUNTS, x)
    for d in range(3):
        size, rate = 1.5 + COUNTS[:, d].sum(), 0.7 + len(COUNTS)
        law = nbinom(size, rate / (rate + 1.0))
        assert surprise[d] == pytest.approx(-law.logpmf(x[d]), abs=1e-10)
        assert view[:2, d] == pytest.approx([law.mean(), law.std()])
        k = np.arange(400)
        entropy = -(law.pmf(k) * law.logpmf(k)).sum()
        assert surprise[d] - view[2, d] == pytest.approx(entropy, abs=1e-6)
    x = np.array([1.0, 0.0, 1.0])
    _, _, surprise, view = parts(BetaBernoulli(0.5, 1.5), FLAGS, x)
    p = (0.5 + FLAGS.sum(axis=0)) / (2.0 + len(FLAGS))
    assert surprise == pytest.approx(-np.log(np.where(x > 0.0, p, 1.0 - p)))
    assert view[0] == pytest.approx(p)
    usual = -p * np.log(p) - (1.0 - p) * np.log(1.0 - p)
    assert surprise - view[2] == pytest.approx(usual)


NUMBERS = np.random.default_rng(6).normal(size=(12, 3)) @ np.array(
    [[1.0, 0.5, 0.0], [0.0, 1.0, 0.3], [0.0, 0.0, 1.0]]
)
TURN = [[1.0, 0.5], [-0.3, 2.0]]
STREAMS = {
    "normal_gamma": (("normal_gamma", 0.0, 0.05, 1.5, 0.5), NUMBERS),
    "counts": (("gamma_poisson", 1.0, 0.5), COUNTS),
    "flags": (BetaBernoulli(), FLAGS),
    "words": (("dirichlet_multinomial", 5.0), COUNTS),
    "autoregression": (Autoregression(2, 0.0, 1.0, rate=0.2), NUMBERS),
    "mixed": (
        Product([(NormalGamma(0.0, 0.5, 2.0, 1.0), [0]), (GammaPoisson(1.0, 1.0), [1, 2])]),
        np.column_stack([NUMBERS[:8, 0], COUNTS[:, 1:]]),
    ),
    "skewed": (
        NormalGamma(1.0, 0.05, 1.5, 0.5, warp=[Warp(1.0, 0.5, 0.0), None, None]),
        np.exp(NUMBERS),
    ),
    "plane": (
        NormalGamma(
            0.0, 0.05, 1.5, 0.5, share=[1.0, 0.3, 0.3, 0.3],
            plane=[[0.0] * 3, [1.0] * 3, [0.6, 0.8, 0.0]],
        ),
        NUMBERS,
    ),
    "turned": (
        Turned(
            Product([(NormalGamma(0.0, 0.5, 3.0, 2.0), [0, 2]), (NormalGamma(*PRIOR), [1])]),
            [0, 2], [0.1, 0.2], [2.0, 1.5], TURN,
        ),
        NUMBERS,
    ),
    "turned, with covariances": (
        Turned(Product([(NormalWishart(), [0, 2]), (NormalGamma(*PRIOR), [1])]),
            [0, 2], [0.1, 0.2], [2.0, 1.5], TURN,
        ),
        NUMBERS,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STREAMS)
def test_a_part_adds_what_the_score_lacks_without_it(name):
    """In every family that leaves missing values out: two scores are the definition."""
    likelihood, rows = STREAMS[name]
    model = SeqDDCRP(likelihood=likelihood)
    for row in rows[:-1]:
        model.learn_one(as_row(row))
    before = model.to_bytes()
    x = as_row(rows[-1] + (2.0 if name != "flags" else 0.0))
    why = model.explain_one(x)
    assert why.score == pytest.approx(model.score_one(x), abs=1e-9)
    assert [part.excess for part in why.parts] == sorted(
        (part.excess for part in why.parts), reverse=True
    )
    for part in why.parts:
        rest = {column: value for column, value in x.items() if column != part.name}
        assert part.surprise == pytest.approx(why.score - model.score_one(rest), abs=1e-9)
        assert part.value == x[part.name]
    assert len(why.parts) == (len(x) if name != "words" else sum(v > 0 for v in x.values()))
    assert model.to_bytes() == before


def test_a_turned_column_is_judged_given_the_others():
    """Of a table that is as all rows are, so that both expect the same of the rest."""
    rng = np.random.default_rng(10)
    family = Turned(NormalGamma(0.0, 1e6, 1e6, 1e6), [0, 1], [0.0, 0.0], [1.0, 1.0], TURN)
    spread = np.linalg.inv(TURN) @ np.linalg.inv(TURN).T
    x = rng.normal(size=2)
    _, _, surprise, view = parts(family, rng.normal(size=(1, 2)), x)
    for d in range(2):
        slope = spread[0, 1] / spread[1 - d, 1 - d]
        variance = spread[d, d] - slope * spread[0, 1]
        z = (x[d] - slope * x[1 - d]) / np.sqrt(variance)
        assert surprise[d] == pytest.approx(
            0.5 * (z * z + np.log(2.0 * np.pi * variance)), abs=1e-4
        )
        assert view[:, d] == pytest.approx([0.0, spread[d, d] ** 0.5, 0.5 * (z * z - 1)], abs=1e-3)


def test_explaining_between_predicting_and_learning_changes_nothing():
    rows = [as_row(row) for row in np.random.default_rng(8).normal(size=(90, 2))]
    one, other = SeqDDCRP(), SeqDDCRP()
    for row in rows:
        one.predict_one(row)
        one.explain_one(row)
        one.learn_one(row)
        other.learn_one(row)
    assert one.to_bytes() == other.to_bytes()


def test_regressors_are_no_parts():
    rng = np.random.default_rng(0)
    x = rng.normal(size=60)
    model = SeqDDCRP(likelihood=("regression", "y"))
    model.learn_many({"x": x, "y": 2.0 * x + 0.1 * rng.normal(size=60)})
    why = model.explain_one({"x": 1.0, "y": 5.0})
    assert [part.name for part in why.parts] == ["y"]
    assert why.parts[0].expected == pytest.approx(2.0, abs=0.2)


def test_expected_values_are_in_users_units_and_in_season():
    hours = 3600.0 * np.arange(24 * 12)
    rng = np.random.default_rng(1)
    daily = 40.0 * np.sin(2.0 * np.pi * hours / 86400.0)
    X = np.column_stack([100.0 + daily, 5.0 + 0.0 * daily]) + rng.normal(size=(len(hours), 2))
    model = SeqDDCRP(season="day")
    model.learn_many(X, hours)
    for hour in (6, 18):
        t = hours[-1] + 3600.0 * (1 + hour)
        expected = 100.0 + 40.0 * np.sin(2.0 * np.pi * t / 86400.0)
        why = model.explain_one({0: expected + 30.0, 1: 5.0}, t)
        assert why.parts[0].name == "0"
        assert why.parts[0].expected == pytest.approx(expected, abs=6.0)
        assert "high" in str(why)


def test_order_does_not_depend_on_units_or_on_the_order_of_columns():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(300, 5)) @ rng.normal(size=(5, 5))
    x = X.mean(axis=0) + X.std(axis=0) * [0.5, -3.0, 1.5, 0.0, 2.4]
    names = [f"c{d}" for d in range(5)]
    orders = []
    for scale, order in ((np.ones(5), range(5)), (10.0 ** np.arange(-2, 3), [3, 0, 4, 1, 2])):
        model = SeqDDCRP(likelihood="normal_wishart")
        model.learn_many({names[d]: scale[d] * X[:, d] for d in order})
        why = model.explain_one({names[d]: scale[d] * x[d] for d in order})
        orders.append([(part.name, round(part.excess, 6)) for part in why.parts])
    assert orders[0] == orders[1]


@pytest.mark.parametrize("likelihood", ["auto", "normal_wishart"])
def test_a_planted_fault_comes_first(likelihood):
    """One of 20 correlated columns shifts by 6 sd; the benchmark has 200 of these."""
    first = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        common = rng.normal(size=(500, 3)) @ rng.normal(size=(3, 20))
        X = common + 0.7 * rng.normal(size=(500, 20))
        model = SeqDDCRP(likelihood=likelihood)
        model.learn_many(X)
        d = seed * 5 % 20
        x = rng.normal(size=3) @ np.zeros((3, 20)) + X[-1]
        x[d] += 6.0 * X[:, d].std()
        first += model.explain_one(dict(enumerate(x.tolist()))).parts[0].name == str(d)
    assert first == 4


@pytest.mark.parametrize("seed", [1010, 1011, 1047])
def test_a_column_is_as_odd_as_it_is_however_little_it_counts(seed):
    """Of columns that move together, what they leave counts as one: not so in reasons."""
    assert planted(seed, "auto", 3.0) == 0


def test_a_step_in_a_process_with_controllers_is_named():
    """The benchmark has 200 of these; the column is named first, or as one of three."""
    places = [blamed(seed, 4, average=20, reference_after=1000)[0] for seed in (3, 8, 13, 14)]
    assert all(place is not None and place < 3 for place in places)


@pytest.mark.parametrize("seed", [2, 9])
def test_an_event_keeps_its_reasons_when_others_take_its_table(seed):
    """The default model sees the step, and soon learns the rows again by other laws."""
    assert blamed(seed, 4)[1] == 0


def test_notes_of_events_that_were_written_over_are_left():
    rng = np.random.default_rng(0)
    rows = np.repeat([0.0, 50.0, 0.0], 200)[:, None] + rng.normal(size=(600, 2))
    model = SeqDDCRP()
    model.step_many(rows)
    state = model._stream.state
    for _ in range(EVENT_CAPACITY):
        record(state.events, state.counts, N_EVENTS, SWAP, 0, -1, 599, 599.0)
    model.events()
    model.step_many(rows[:70])
    model.step_many(rows[:70])
    assert all(0 <= event.index - 600 < 140 for event in model.events())


@pytest.mark.parametrize("season", [None, "day"])
@pytest.mark.parametrize("reference_after", [None, 300])
@pytest.mark.parametrize("likelihood", ["normal_gamma", ("autoregression", 1)])
def test_an_alarm_says_what_the_row_before_would_have_said(likelihood, reference_after, season):
    """Whatever the batches: a slow twin explains each row before it learns it."""
    rng = np.random.default_rng(11)
    X, hours = rng.normal(size=(1100, 3)), 3600.0 * np.arange(1100)
    X[[500, 640, 800, 801, 999]] += [0.0, 14.0, -9.0]
    X[1030:] += 7.0

    def detector():
        model = SeqDDCRP(likelihood=likelihood, season=season)
        return RegimeAnomalyDetector(model, reference_after=reference_after)

    slow, fast, said, expected = detector(), detector(), [], []
    for a, b in ((0, 450), (450, 451), (451, 700), (700, 1100)):
        said += fast.step_many(X[a:b], hours[a:b])["why"].to_pylist()
    for a in (*range(0, 400, 100), *range(400, 1100)):
        b = a + 100 if a < 400 else a + 1
        why = slow.explain_one(dict(enumerate(X[a])), hours[a]).why if a >= 400 else ""
        told = slow.step_many(X[a:b], hours[a:b])["why"].to_pylist()
        expected += [why or None] if a >= 400 and told[0] else told
    assert said == expected
    assert sum(why is not None for why in said[400:]) >= 2


def test_a_return_says_what_is_unlike_its_last_visit():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(1200, 3))
    X[300:500, 0] += 12.0
    X[900:, 0] += 12.0
    X[900:, 2] += 1.0
    model, events = SeqDDCRP(likelihood="normal_gamma"), []
    for a in range(0, 1200, 100):
        model.learn_many(X[a : a + 100])
        events += model.events()
    back = next(event for event in events if event.kind == "return" and event.index >= 895)
    assert back.reasons[0].name == "0"
    assert [part.name for part in back.unlike] == ["2"]
    assert "unlike its last visit: 2 " in back.why
    assert not any(event.unlike for event in events if event.kind != "return")


def test_a_fleet_says_who_differs_from_the_past_and_who_shares_it():
    rng = np.random.default_rng(0)
    rows, t = [], []
    for i in range(600):
        for key in "abcde":
            x = rng.normal(size=3)
            x[1] += 9.0 * (key in "bd" and i >= 560)
            x[0] -= 8.0 * (key == "c" and (100 <= i < 160 or i >= 570))
            x[2] += 7.0 * (key == "e" and i >= 450)
            rows.append({"k": key, **dict(zip("xyz", x.tolist(), strict=True))})
            t.append(60.0 * i)
    fleet = Keyed(SeqDDCRP(likelihood="normal_gamma"), by="k")
    for a in range(0, 3000, 500):
        fleet.step_many(rows[a : a + 500], t[a : a + 500])
    stands = {row["key"]: row for row in fleet.standing().to_pylist()}
    assert [*stands] == ["b", "d", "e", "c", "a"]
    assert [row["group"] for row in stands.values()] == [1, 1, None, None, None]
    assert stands["b"]["why"].startswith("y ")
    assert stands["b"]["since"] == pytest.approx(60.0 * 560, abs=180.0)
    assert stands["c"]["share"] == pytest.approx(60 / 570, abs=0.02)
    assert (stands["a"]["share"], stands["a"]["rows"]) == (1.0, 600)
    fleet.mark("b", stands["b"]["state"], "wash", "planned")
    marked = Keyed.from_bytes(fleet.to_bytes()).standing().to_pylist()[0]
    assert (marked["key"], marked["name"], marked["verdict"]) == ("b", "wash", "planned")
    with pytest.raises(UnknownKeyError):
        fleet.mark("z", 0, "x")


def test_words_of_a_text():
    about = ["oil prices rise as opec meets", "home team wins the cup final"]
    model = TextStream(lag=50, scale="story")
    model.learn_many([f"{about[i % 2]} no {i % 9}" for i in range(100)])
    before = model.to_bytes()
    why = model.explain_one("oil prices rise as zebra meets")
    assert why.parts[0].name == "zebra"
    assert {part.name for part in why.parts} >= {"oil", "opec", "zebra"} - {"opec"}
    words = [part.name for part in why.parts]
    rest = model.score_one([word for word in words if word != "zebra"])
    assert why.parts[0].surprise == pytest.approx(why.score - rest, abs=1e-9)
    assert model.to_bytes() == before
    many = model.explain_many(["oil prices", "cup zebra"])
    assert [len(row.parts) for row in many] == [2, 2]


def test_other_models_say_why():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 3))
    group = GroupDP(n_particles=10)
    group.learn_many(X, group=["a"] * 60)
    why = group.explain_one({0: 9.0, 1: 0.0, 2: 0.0}, group="a")
    assert why.parts[0].name == "0"
    vectors = EmbeddingStream(lag=20)
    vectors.learn_many(np.tile(np.eye(8)[:2], (30, 1)) + 0.04 * rng.normal(size=(60, 8)))
    assert len(vectors.explain_one(dict(enumerate(np.eye(8)[5].tolist()))).parts) >= 1
    topics = NestedCRPTopics()
    topics.learn_many(["cat purr milk", "sail oar hull"] * 20)
    assert topics.explain_one("cat purr oar").parts[0].name == "oar"
    many = topics.explain_many(["cat purr oar", "sail hull milk"])
    assert list(map(repr, many)) == [
        repr(topics.explain_one(x)) for x in ("cat purr oar", "sail hull milk")
    ]
    counts = NestedCRPTopics()
    counts.learn_many(np.array([[1, 1, 0, 0], [0, 0, 2, 1]] * 20))
    parts = counts.explain_many(np.array([[1, 1, 1, 0]]))[0].parts
    assert {part.name for part in parts} == {"0", "1", "2"}
    fleet = Keyed(SeqDDCRP(likelihood="normal_gamma"), by="key")
    fleet.learn_many({"key": ["a"] * 60, "y": X[:, 0]})
    assert fleet.explain_one({"key": "a", "y": 9.0}).parts[0].name == "y"
    detector = RegimeAnomalyDetector(reference_after=40, average=5)
    detector.learn_many(X)
    assert detector.explain_one({0: 0.0, 1: 0.0, 2: 8.0}).parts[0].name == "2"
    assert detector.summary().num_rows >= 1
    assert detector.events()[0].kind == "birth"


def test_in_warm_up_nothing_is_said():
    why = SeqDDCRP().explain_one({"y": 3.0})
    assert (why.parts, why.score, why.excess, why.shared) == ((), 0.0, 0.0, 0.0)


def test_cards_tables_and_pictures():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(100, 3))
    model = SeqDDCRP(likelihood="normal_gamma")
    model.learn_many(X)
    X[5, 1] = 9.0
    many = model.explain_many(X[:8])
    assert many.names[0] == "1"
    assert many.table().column_names[:5] == ["score", "excess", "shared", "regime", "excess_1"]
    assert many[5].shared < 0.1
    ET.fromstring(many._repr_html_())
    card = ET.fromstring(many[5]._repr_html_())
    cells = [cell.text for cell in card.findall(".//tbody/tr/td")]
    assert cells[:3:2] == ["1", f"{many[5].parts[0].excess:.4g}"]
    assert cells[1].startswith("9, expected ")
    assert card.findall("div")[0].text.startswith("surprise ")
    for figure in (many.plot(), many[5].plot()):
        assert figure.get_axes()
    assert streamddcrp.Part("x", 24.2, 102.0, 1.1).deviations == pytest.approx(-70.7, abs=0.1)
    beside = streamddcrp.Part("flow", 102.5, 102.0, 1.1, excess=3.0)
    assert str(beside) == "flow 102.5, expected 102.0 ± 1.1: as usual by itself"
    assert str(streamddcrp.Part("flow", 24.2, 102.0, 1.1)) == (
        "flow 24.2, expected 102.0 ± 1.1: 71 standard deviations low"
    )


def shifted(n=400):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    X[200:300, 2] += 9.0
    X[300:, 1] *= 12.0
    return X


@pytest.mark.parametrize("rows", [1, 100, 400])
def test_events_say_by_what_a_regime_differs(rows):
    X, model, events = shifted(), SeqDDCRP(), []
    for a in range(0, len(X), rows):
        model.learn_many(X[a : a + rows])
        events += model.events()
    moved = next(event for event in events if event.kind == "birth" and event.index >= 195)
    assert moved.reasons[0].name == "2"
    assert moved.reasons[0].value - moved.reasons[0].expected == pytest.approx(9.0, abs=2.0)
    assert moved.why.startswith("2 ")
    assert " to 9" in moved.why or " to 8" in moved.why
    if rows > 1:
        wide = next(event for event in events if event.index >= 300 and event.reasons)
        assert {part.name for part in wide.reasons[:2]} == {"1", "2"}


def test_an_outlier_differs_from_the_regime_around_it():
    X = np.random.default_rng(1).normal(size=(900, 3))
    X[500:600, 0] += 9.0
    X[800, 1] += 12.0
    model = SeqDDCRP(likelihood="normal_gamma")
    for a in range(0, 900, 150):
        model.learn_many(X[a : a + 150])
        odd = [event for event in model.events() if event.index == 800]
    assert odd
    assert odd[0].reasons == () or "0" not in odd[0].reasons[0].name
    assert model._stream.before(odd[0].label, 800) == 0


def test_differences_of_regimes_by_the_divergence_of_gaussians():
    family = NormalGamma(*PRIOR)
    rng = np.random.default_rng(2)
    tables = [rng.normal(m, 1.0, size=(8, 2)) for m in (0.0, 3.0)]
    stats = np.array([family.suffstats(rows).sum(axis=0) for rows in tables])
    _, hyper, post = family._posteriors(stats)
    views = np.empty((2, 3, 2))
    for k in range(2):
        outlook(family.family, hyper, post[k], np.zeros(2), views[k])
    (found,) = differences(family, views, ["a", "b"])
    assert len(found) == 2
    for part in found:
        d = "ab".index(part.name)
        laws = [student(0.0, 8, x[:, d].sum(), (x[:, d] ** 2).sum(), PRIOR) for x in tables]
        (m1, v1), (m2, v2) = ((law.mean(), law.var()) for law in laws)
        nodes, weights = np.polynomial.hermite_e.hermegauss(20)
        apart = 0.0
        for m, v, other, w in ((m1, v1, m2, v2), (m2, v2, m1, v1)):
            x = m + np.sqrt(v) * nodes
            log_ratio = norm.logpdf(x, m, np.sqrt(v)) - norm.logpdf(x, other, np.sqrt(w))
            apart += weights @ log_ratio / np.sqrt(2.0 * np.pi)
        assert part.excess == pytest.approx(apart, rel=1e-9)
        assert (part.value, part.expected) == pytest.approx((m1, m2))
        assert (part.spread, part.sd) == pytest.approx((np.sqrt(v1), np.sqrt(v2)))
    assert found[0].excess >= found[1].excess


@pytest.mark.parametrize("season", [None, "day"])
def test_a_row_that_was_learned_is_explained_as_before(season):
    rng = np.random.default_rng(5)
    X, hours = rng.normal(size=(701, 3)) * [1.0, 2.0, 3.0], 3600.0 * np.arange(701)
    X[:, 1] += 50.0 * np.sin(2.0 * np.pi * np.arange(701) / 24.0) * (season is not None)
    X[700, 1] += 30.0
    options = {"season": season, "likelihood": "normal_gamma"}
    model, other = SeqDDCRP(**options), SeqDDCRP(**options)
    model.learn_many(X[:700], hours[:700])
    row = dict(enumerate(X[700]))
    before = model.explain_one(row, hours[700]).parts[0]
    other.step_many(X, hours)
    after = other.explain_learned(row, 1).parts[0]
    assert before.name == after.name == "1"
    assert after.value == before.value
    assert after.expected == pytest.approx(before.expected, abs=0.2 * before.sd)
    assert after.sd == pytest.approx(before.sd, rel=0.1)
    assert other.explain_learned(row, 702) is None


@pytest.mark.parametrize("size", [1, 5])
def test_rows_of_a_new_regime_are_explained_by_the_one_before(size):
    X = np.random.default_rng(8).normal(size=(405, 2))
    X[400:, 1] += 9.0
    model = SeqDDCRP(likelihood="normal_gamma")
    model.step_many(X[:400])
    for a in range(400, 405, size):
        model.step_many(X[a : a + size])
        for i in range(size):
            found = model.explain_learned(dict(enumerate(X[a + i])), size - i)
            assert (found.parts[0].name, abs(found.parts[0].expected) < 0.5) == ("1", True)


def test_of_a_key_a_row_that_was_learned_is_explained():
    rng = np.random.default_rng(6)
    fleet = Keyed(SeqDDCRP(likelihood="normal_gamma"), by="k")
    X = rng.normal(size=(400, 2))
    X[398] += [0.0, 20.0]
    rows = [{"k": "ab"[i % 2], "x": x, "y": y} for i, (x, y) in enumerate(X.tolist())]
    fleet.step_many(rows)
    assert fleet.explain_learned(rows[398], 1).parts[0].name == "y"
    assert fleet.explain_learned(rows[396], 2).excess < 5.0
    many = fleet.explain_many(rows[396:399])
    assert [row.parts[0].name for row in many] == [
        fleet.explain_one(row).parts[0].name for row in rows[396:399]
    ]


@pytest.mark.parametrize(("average", "reference_after"), [(1, None), (1, 300), (20, 300)])
@pytest.mark.parametrize("likelihood", ["auto", ("autoregression", 1)])
def test_an_alarm_says_why(average, reference_after, likelihood):
    rng = np.random.default_rng(7)
    detector = RegimeAnomalyDetector(
        SeqDDCRP(likelihood=likelihood), average=average, reference_after=reference_after
    )
    X = rng.normal(size=(1400, 5))
    X[1300:, 3] -= 8.0
    out = detector.step_many(X[:1250]).to_pylist() + detector.step_many(X[1250:]).to_pylist()
    said = [row["why"] for row in out]
    first = next(said[i] for i in range(1300, 1340) if said[i]).split(";")[0]
    assert first.startswith("3 -")
    assert first.endswith(" low")
    assert all(row["alarm"] for row in out if row["why"])


@pytest.mark.parametrize("rows", [1, 150])
def test_a_planned_regime_raises_no_alarm_and_a_fault_does(rows):
    rng = np.random.default_rng(9)
    X = rng.normal(size=(1500, 2))
    for a in (600, 900, 1200):
        X[a : a + 60] += [15.0, -15.0]
    again, found = {}, {}
    for verdict in ("normal", "planned", "fault"):
        detector = RegimeAnomalyDetector(SeqDDCRP(likelihood="normal_gamma"))
        out = detector.step_many(X[:800]).to_pylist()
        visited = out[650]["label"]
        detector.mark(visited, "wash", verdict)
        assert detector._model.verdicts == {visited: verdict}
        marked = {row["id"]: row for row in detector.summary().to_pylist()}[visited]
        assert (marked["name"], marked["verdict"]) == ("wash", verdict)
        assert (marked["rows"], marked["visits"]) == (pytest.approx(60, abs=2), 1)
        detector = RegimeAnomalyDetector.from_bytes(detector.to_bytes())
        alarms = []
        for a in range(800, 1500, rows):
            alarms += detector.step_many(X[a : a + rows])["alarm"].to_pylist()
        again[verdict] = [any(alarms[a - 800 : a - 700]) for a in (900, 1200)]
        found[verdict] = sum(alarms)
    assert again["planned"] == [False, False]
    assert again["fault"] == [True, True]
    assert found["fault"] >= 110
    assert found["normal"] < 60
    with pytest.raises(ConfigError, match="verdict must be one of"):
        SeqDDCRP().mark(1, "x", "bad")


@pytest.mark.parametrize(("n", "total", "rows"), [(1, 7, 5), (3, 40, 12), (20, 300, 90)])
def test_how_probable_so_long_a_stay_is(n, total, rows):
    rate = beta(n + 0.5, total - n + 0.5)
    expected = rate.expect(lambda r: (1.0 - r) ** rows)
    assert chance_of_stay(n, total, rows) == pytest.approx(expected, rel=1e-6)


def test_a_stay_that_lasts_longer_than_usual():
    X = np.random.default_rng(2).normal(size=(1500, 2))
    for a in range(100, 1100, 50):
        X[a : a + 25, 0] += 12.0
    X[1100:, 0] += 12.0
    model = SeqDDCRP(likelihood="normal_gamma")
    model.learn_many(X[:1110])
    before = {row["state"]: row for row in model.transitions().to_pylist()}
    model.learn_many(X[1110:])
    after = {row["state"]: row for row in model.transitions().to_pylist()}
    (here,) = [row for row in after.values() if row["present"] is not None]
    assert here["present"] == pytest.approx(400, abs=3)
    assert here["longer"] < 0.01 < 0.3 < before[here["state"]]["longer"]
    assert all(row["longer"] is None for label, row in after.items() if label != here["state"])
    stays = {row["id"]: row["stay"] for row in model.summary().to_pylist()}
    assert stays == {label: after[label]["rows"] for label in stays}


def test_of_the_first_stay_in_a_state_nothing_is_usual():
    model = SeqDDCRP(likelihood="normal_gamma")
    model.learn_many(np.random.default_rng(2).normal(size=(900, 2)))
    (here,) = model.transitions().to_pylist()
    assert (here["present"], here["longer"]) == (900, None)
    assert np.isnan(model._standing().longer)


@pytest.mark.parametrize("cut", [1, 7, 300])
def test_numbers_are_those_of_the_report_however_rows_come(cut):
    """Row by row, in batches, and after restarts: as the whole column of states is counted."""
    rng = np.random.default_rng(3)
    level = 4.0 * np.repeat(rng.integers(0, 4, 12), 25)
    X = np.column_stack([level, -level]) + rng.normal(size=(300, 2))
    X[rng.integers(100, 300, 6)] += 15.0
    out = SeqDDCRP().step_many(X)
    numbers, known = Numbers(), out["score"].is_valid().to_numpy(zero_copy_only=False)
    numbers.see(out["state"].to_numpy()[known])
    model = SeqDDCRP()
    for first in range(0, 300, cut):
        rows = X[first : first + cut]
        if cut == 1:
            model.learn_one(dict(enumerate(rows[0].tolist())))
        else:
            model.learn_many(rows)
        if first % 5 == 0:
            model = SeqDDCRP.from_bytes(model.to_bytes())
    summary = model.summary()
    found = dict(zip(*(summary[name].to_pylist() for name in ("id", "number")), strict=True))
    assert found == {label: numbers.of.get(label) for label in found}
    assert sorted(numbers.of.values()) == [*range(1, len(numbers.of) + 1)]
    assert len(numbers.of) > 2
    assert {event.number for event in model.events()} <= {None, *numbers.of.values()}
