"""The exact language model against enumeration, closed forms and the recorded oracle."""

import datetime as dt
from functools import reduce

import numpy as np
import pytest
from scipy.special import gammaln

from streamddcrp.decay import (
    Exponential,
    LinearWindow,
    Logistic,
    NoDecay,
    UserDecay,
    Window,
    make_decay,
)
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.models.language.base_measure import BaseMeasure
from streamddcrp.models.language.estimator import LinkLanguageModel
from streamddcrp.models.language.fit import (
    Corpus,
    evidence_gradient,
    evidence_surface,
    fit_language,
)
from tests.oracles.enumeration import enumerate_links
from tests.oracles.links import prior_links

W = np.array([0, 1, 0, 0, 1, 2])
G = np.array([0.5, 0.3, 0.2])
ALPHA = 0.7
DECAYS = {
    "exponential": (Exponential(2.0), -8.1047335744, 4.2690852051),
    "window": (Window(3.0), -9.6839816917, 4.5185185185),
    "logistic": (Logistic(1.5), -8.1310777913, 4.3192666671),
    "linear_window": (LinearWindow(4.0), -8.2636159218, 4.1275457043),
    "none": (NoDecay(), -8.9950090323, 3.5817491485),
}
TIMES = np.array([0.0, 0.4, 0.4, 3.0, 3.1, 4.0])


def model(decay, **options):
    return LinkLanguageModel(alpha=ALPHA, decay=decay, base_measure=G, **options)


def enumerated(decay, times, word=W, g=G, alpha=ALPHA):
    """Sum over all link vectors: a table's marginal is g of its word, if it has only one."""

    def log_marginal(members):
        words = {int(word[i]) for i in members}
        return np.log(g[words.pop()]) if len(words) == 1 else -np.inf

    return enumerate_links(prior_links(decay, alpha, times), log_marginal)


def numbers_of_tables(p):
    """Chances of 0 .. N tables, of independent openings: a Poisson-binomial."""
    return reduce(np.convolve, np.stack([1.0 - p, p], axis=1))


def together(links):
    """P(i and j at one table) for independent sequential links: M_ij = sum_{t<i} Q_it M_tj."""
    n = links.shape[0]
    out = np.eye(n)
    for i in range(n):
        row = slice(links.indptr[i], links.indptr[i + 1])
        to = links.indices[row]
        earlier = to < i
        out[i, :i] = links.data[row][earlier] @ out[to[earlier], :i]
        out[:i, i] = out[i, :i]
    return out


@pytest.mark.parametrize("name", DECAYS)
def test_recorded_oracle(name):
    decay, log_evidence, n_tables = DECAYS[name]
    made = model(decay)
    made.learn_many(W)
    assert made.objective == pytest.approx(log_evidence, abs=2e-10)
    assert made.n_tables.mean == pytest.approx(n_tables, abs=2e-10)
    surface = evidence_surface(Corpus.from_documents([W], base_measure=G), [decay], [ALPHA])
    assert surface.log_evidence[0, 0, 0] == pytest.approx(log_evidence, abs=2e-10)


def test_recorded_details_of_the_exponential():
    made = model(Exponential(2.0))
    steps = made.step_many(W)
    expected = [
        -0.6931471806,
        -1.828023021,
        -0.8469145579,
        -0.4753314916,
        -1.5461683103,
        -2.715149013,
    ]
    assert -np.array(steps["score"]) == pytest.approx(expected, abs=1e-9)
    links = made.links(W).toarray()
    assert links[3] == pytest.approx([0.1891477248, 0, 0.5141568233, 0.2966954519, 0, 0], abs=1e-10)
    assert np.array(steps["p_new"]) == pytest.approx(np.diag(links), rel=1e-12)
    assert made.n_tables.variance == pytest.approx(0.7082824411, abs=1e-10)
    probs = numbers_of_tables(np.diag(links))
    expected = [0, 0, 0, 0.185668094, 0.4297125547, 0.3144854035, 0.0701339478]
    assert probs == pytest.approx(expected, abs=1e-9)
    assert probs @ np.arange(7) == pytest.approx(made.n_tables.mean, rel=1e-12)
    corpus = Corpus.from_documents([W], base_measure=G)
    surface = evidence_surface(corpus, [Exponential(2.0)], [ALPHA])
    assert surface.log_bayes_factor()[0, 0, 0] == pytest.approx(0.8902754579, abs=1e-10)


@pytest.mark.parametrize("clocked", [False, True])
@pytest.mark.parametrize("name", [*DECAYS, "user", "sum"])
def test_enumeration(name, clocked):
    others = {
        "user": UserDecay(lambda d: np.exp(-0.1 * d**2)),
        "sum": 0.3 * Window(2.5) + 0.5 * Exponential(3.0),
    }
    decay = others[name] if name in others else DECAYS[name][0]
    t = TIMES if clocked else None
    exact = enumerated(decay, TIMES if clocked else len(W))
    made = model(decay)
    made.learn_many(W, t)
    assert made.objective == pytest.approx(exact.log_evidence, rel=1e-11)
    assert made.n_tables.mean == pytest.approx(exact.expected_n_tables, rel=1e-11)
    links = made.links(W, t)
    assert links.toarray() == pytest.approx(exact.links, abs=1e-12)
    assert together(links) == pytest.approx(exact.together, abs=1e-12)
    found = numbers_of_tables(links.diagonal())
    assert found[1:] == pytest.approx(exact.n_tables_probs, abs=1e-12)
    times = None if t is None else [t]
    corpus = Corpus.from_documents([W], base_measure=G, times=times)
    surface = evidence_surface(corpus, [decay], [ALPHA])
    assert surface.log_evidence[0, 0, 0] == pytest.approx(exact.log_evidence, rel=1e-11)


def test_no_decay_has_the_closed_form_of_the_crp():
    rng = np.random.default_rng(0)
    g = rng.dirichlet(np.ones(30))
    w = rng.choice(30, size=500, p=g)
    alpha, n_v = 3.7, np.bincount(w, minlength=30)
    made = LinkLanguageModel(alpha=alpha, decay="none", base_measure=g)
    made.learn_many(w)
    ag = alpha * g
    evidence = gammaln(alpha) - gammaln(alpha + 500) + np.sum(gammaln(ag + n_v) - gammaln(ag))
    assert made.objective == pytest.approx(evidence, rel=1e-12)
    n_tables = sum(ag[v] / (ag[v] + m) for v in range(30) for m in range(n_v[v]))
    assert made.n_tables.mean == pytest.approx(n_tables, rel=1e-12)


@pytest.mark.parametrize("name", DECAYS)
def test_the_next_token_has_a_distribution(name):
    for options in ({}, {"t": TIMES}):
        made = model(DECAYS[name][0])
        later = None if not options else 5.5
        assert sum(
            made.predict_proba_one(None if later is None else 0.0).values()
        ) == pytest.approx(1)
        made.learn_many(W, **options)
        probs = made.predict_proba_one(later)
        assert sum(probs.values()) == pytest.approx(1.0, rel=1e-12)
        for v in range(3):
            assert probs[v] == pytest.approx(np.exp(made.log_prob(v, later)), rel=1e-12)
            scored = made.score_many([v], None if later is None else [later])
            assert scored[0] == pytest.approx(-np.log(probs[v]), rel=1e-12)


def test_scoring_changes_nothing_and_equals_learning():
    made = LinkLanguageModel(base_measure=1000)
    made.learn_many("one two three two one")
    before = made.to_bytes()
    scores = made.score_many("two four four")
    assert made.to_bytes() == before
    assert np.array(made.step_many("two four four")["score"]) == pytest.approx(scores, abs=0)


def test_documents_are_apart():
    for decay in (Exponential(5.0), Window(4.0)):
        for times in (None, np.arange(6.0)):
            made = model(decay)
            for _ in range(2):
                made.learn_many(W, times)
                made.new_document()
            once = model(decay)
            once.learn_many(W, times)
            assert made.objective == pytest.approx(2 * once.objective, rel=1e-12)
    corpus = Corpus.from_documents([W, W[::-1], W[:0]], base_measure=G)
    surface = evidence_surface(corpus, [Exponential(5.0), Logistic(2.0)], [0.3, ALPHA])
    for m, document in enumerate([W, W[::-1], W[:0]]):
        alone = Corpus.from_documents([document], base_measure=G)
        one = evidence_surface(alone, [Exponential(5.0), Logistic(2.0)], [0.3, ALPHA])
        assert surface.log_evidence[m] == pytest.approx(one.log_evidence[0], abs=1e-13)
        assert surface.crp[m] == pytest.approx(one.crp[0], abs=1e-13)


def test_a_multiple_of_a_decay_is_another_alpha():
    scaled, plain = LinkLanguageModel(decay=2.0 * make_decay("none"), base_measure=G), None
    plain = LinkLanguageModel(decay="none", alpha=0.5, base_measure=G)
    for made in (scaled, plain):
        made.learn_many(W)
    assert scaled.objective == plain.objective


# -- empirical Bayes -------------------------------------------------------------------------------


def test_recorded_gradient():
    corpus = Corpus.from_documents([W], base_measure=G)
    found = evidence_gradient(corpus, Exponential(2.0), ALPHA)
    assert found == pytest.approx((-8.1047335744, 1.2710435832, -0.3327756113), abs=2e-10)


@pytest.mark.parametrize("clocked", [False, True])
@pytest.mark.parametrize("decay", [Exponential(2.3), Logistic(1.7), LinearWindow(3.4)])
def test_gradient_equals_differences(decay, clocked):
    rng = np.random.default_rng(2)
    documents = [rng.choice(3, size=n, p=G) for n in (40, 1, 60)]
    times = [np.sort(rng.uniform(0, 30, len(w))) for w in documents] if clocked else None
    corpus = Corpus.from_documents(documents, base_measure=G, times=times)
    family, h = type(decay), 1e-6
    parameter = getattr(decay, "scale" if family is Exponential else "location")
    found = evidence_gradient(corpus, decay, ALPHA)

    def value(alpha, parameter):
        return evidence_gradient(corpus, family(parameter), alpha).log_evidence

    by_alpha = (value(ALPHA * np.exp(h), parameter) - value(ALPHA * np.exp(-h), parameter)) / (
        2 * h
    )
    by_parameter = (value(ALPHA, parameter + h) - value(ALPHA, parameter - h)) / (2 * h)
    # differences of values of about 100 over 2e-6: rounding 1e-8, curvature 1e-10
    assert found.by_log_alpha == pytest.approx(by_alpha, abs=1e-6)
    assert found.by_parameter == pytest.approx(by_parameter, abs=1e-6)


@pytest.mark.parametrize("family", ["exponential", "logistic", "linear_window", "window", "none"])
def test_fit_is_at_a_maximum(family):
    rng = np.random.default_rng(3)
    documents = []
    for _ in range(20):  # words repeat what came up to about ten tokens before
        w = [0]
        for _ in range(80):
            old = rng.random() < 0.7
            w.append(w[-min(rng.integers(1, 10), len(w))] if old else int(rng.integers(50)))
        documents.append(w)
    corpus = Corpus.from_documents(documents, base_measure=50)
    fit = fit_language(corpus, family)
    assert fit == fit_language(corpus, family)
    at = evidence_gradient(corpus, fit.decay, fit.alpha)
    assert at.log_evidence == pytest.approx(fit.log_evidence, rel=1e-12)
    assert at.by_log_alpha == pytest.approx(0.0, abs=0.05)
    if family in ("exponential", "logistic"):  # a linear window has kinks
        assert at.by_parameter == pytest.approx(0.0, abs=0.05)
    if family == "none":
        assert fit.log_bayes_factor == 0.0
    else:
        assert fit.log_bayes_factor > 50.0
        assert fit.log_bayes_factor <= fit.log_bayes_factor_same_alpha
    grid = evidence_surface(corpus, [fit.decay], fit.alpha * np.array([0.5, 0.9, 1.0, 1.1, 2.0]))
    assert grid.log_evidence.sum(axis=0)[0].argmax() == 2


# -- base measures and tokens ----------------------------------------------------------------------


def test_base_measures_sum_to_one():
    for g in (
        BaseMeasure.uniform(7),
        BaseMeasure.from_probabilities({"a": 0.5, "b": 0.2}, n_words=5),
        BaseMeasure.from_counts(["one two two", "two three"], smoothing=0.5, n_words=11),
        BaseMeasure.from_counts([[0, 1, 1], [3]], smoothing=0.1),
    ):
        assert g.probs.sum() + (g.n_words - len(g.probs)) * g.unseen == pytest.approx(1.0)
    g = BaseMeasure.from_counts(["one two two", "two three"], smoothing=0.5, n_words=11)
    assert dict(zip(g.words, g.probs, strict=True)) == pytest.approx(
        {"one": 1.5 / 10.5, "two": 3.5 / 10.5, "three": 1.5 / 10.5}
    )
    assert g.unseen == pytest.approx(0.5 / 10.5)


@pytest.mark.parametrize("n_words", [0, 1, -3, 2.5, "many", True])
def test_bad_sizes_of_a_vocabulary_are_refused(n_words):
    for make in (
        lambda n: BaseMeasure.uniform(n if n != 1 else 0),
        lambda n: BaseMeasure.from_counts(["one two"], n_words=n),
        lambda n: BaseMeasure.from_probabilities([0.4, 0.4], n_words=n),
    ):
        with pytest.raises(ConfigError, match=r"n_words|sum to"):
            make(n_words)


def test_words_and_numbers_are_the_same_model():
    text = "to be or not to be"
    by_word, by_id = LinkLanguageModel(base_measure=9), LinkLanguageModel(base_measure=9)
    by_word.learn_many(text)
    by_id.learn_many([0, 1, 2, 3, 0, 1])
    assert by_word.objective == by_id.objective
    assert by_word.predict_proba_one()["be"] == by_id.predict_proba_one()[1]
    unknown = by_word.predict_proba_one()[None]
    assert unknown == pytest.approx(5 * by_id.predict_proba_one()[8])


@pytest.mark.parametrize(
    ("tokens", "row", "names"),
    [
        (["be", "so"], 1, "'so'"),
        ([1, 2], None, "whole numbers"),
        ([["to", "be"]], None, "tokens"),
        ([["to"], ["be", "or"]], None, "tokens"),
        ([1.5], None, "float"),
        (["be", 3], 1, "3"),
        ([3, "be"], None, "whole numbers"),
        (7, None, "7"),
    ],
)
def test_unknown_tokens_are_refused(tokens, row, names):
    made = LinkLanguageModel(base_measure=2)
    made.learn_many("to be")
    before = made.to_bytes()
    with pytest.raises(SchemaError, match=names) as caught:
        made.learn_many(tokens)
    assert caught.value.row == row
    assert made.to_bytes() == before


def test_unknown_numbers_are_refused():
    made = LinkLanguageModel(base_measure=[0.5, 0.5, 0.0])
    for tokens, names in (([0, 3], "token 3"), ([-1], "token -1"), ([1, 2], "2 no probability")):
        with pytest.raises(SchemaError, match=names):
            made.learn_many(tokens)
    with pytest.raises(SchemaError, match="document 1, row 0: token 5"):
        Corpus.from_documents([[0], [5]], base_measure=[0.5, 0.5])


@pytest.mark.parametrize(
    "options",
    [
        {"alpha": 0.0},
        {"alpha": "one"},
        {"base_measure": [0.5, 0.4]},
        {"base_measure": [1.5, -0.5]},
        {"base_measure": 0},
        {"base_measure": True},
        {"base_measure": []},
        {"base_measure": None},
        {"base_measure": "text"},
        {"decay": ("exponential", -1.0)},
        {"decay": make_decay("none") + Window(3.0)},
        {"decay": lambda d: 1.0 + 0 * d},
    ],
)
def test_bad_options_are_refused(options):
    with pytest.raises(ConfigError):
        LinkLanguageModel(**options)


def test_times_are_checked():
    made = model(Exponential(2.0))
    made.learn_many([0, 1], [1.0, 2.0])
    for t in (None, [1.0], [np.nan], ["x"], [3.0, 4.0]):
        with pytest.raises(SchemaError):
            made.learn_many([0], t)
    made.learn_many([0], 2.0)
    made.new_document()
    made.learn_many([0], 0.5)
    assert made.n_seen == 4


def test_a_decay_that_fails_leaves_the_model_as_it_was():
    """A user's function is called late where distances are times."""
    made = LinkLanguageModel(decay=lambda d: np.where(d == 0.25, np.nan, np.exp(-d)))
    for before in ([], [1.0, 2.0]):
        made.learn_many(["to"] * len(before), before)
        state = made._memory.arrays(), made.objective, made.n_seen
        with pytest.raises(ConfigError, match="nan at distance"):
            made.learn_many("be or", [3.0, 3.25])
        assert (made.objective, made.n_seen) == state[1:]
        assert len(made.predict_proba_one(3.0)) == 1 + (len(before) > 0)
    made.learn_many("be", 3.0)
    made.learn_many("to be", [3.1, 3.2])
    assert made.n_seen == 5


@pytest.mark.parametrize("t", [5.0, dt.datetime(2024, 1, 1), np.datetime64("2024-01-01")])
def test_one_time_may_stand_for_all_tokens_of_a_batch(t):
    model = LinkLanguageModel(base_measure=7)
    assert len(model.step_many(["a", "b", "a"], t=t)["time"].unique()) == 1
    assert model.n_seen == 3


def test_times_of_more_documents_than_there_are_are_refused():
    with pytest.raises(SchemaError, match="times: got 2 for 1 documents"):
        Corpus.from_documents([W], base_measure=G, times=[np.arange(len(W)), [0.0]])
