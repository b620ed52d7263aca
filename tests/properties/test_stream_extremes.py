"""Random options on unkind data: nothing breaks, and the bound stays that of the links made."""

import copy
import itertools
import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.special import gammaln, logsumexp

from streamddcrp import SeqDDCRP, fit_seqddcrp
from streamddcrp.contract import P_CHANGE, P_NEW
from streamddcrp.decay import Exponential, LinearWindow, Logistic, NoDecay, UserDecay, Window
from streamddcrp.errors import StreamDDCRPError
from streamddcrp.likelihoods import (
    BetaBernoulli,
    DirichletMultinomial,
    GammaPoisson,
    NormalGamma,
    NormalWishart,
)
from streamddcrp.models.seqddcrp.config import halo_of, make_config
from streamddcrp.models.seqddcrp.engine import bound, given_weights, predict_row
from streamddcrp.models.seqddcrp.kernels.layout import FILTERED, SETTLED
from streamddcrp.models.seqddcrp.state import arrays_of, empty_state, state_from_arrays
from tests.oracles.dense_stream import DenseStream
from tests.oracles.links import prior_links

NAMED = [
    NoDecay(), Exponential(2.5), Exponential(20.0), Exponential(1e-3), Window(6), Window(0.5),
    LinearWindow(9.5), Logistic(3.0), Logistic(3.0, 0.2), Exponential(4.0) * Window(8),
    0.5 * Window(3) + 0.2 * Exponential(2.0), 1e-6 * Window(9), 1e9 * LinearWindow(4.0),
    0.9 * Exponential(4.0) + 0.1 * NoDecay(),
]  # fmt: skip
USER = [
    UserDecay(lambda d: (1.0 + d) * np.exp(-d)),  # undefined at infinity
    UserDecay(lambda d: 1.0 / (1.0 + d) ** 2),
]
SEEDS = st.integers(0, 2**32 - 1)


def pick(rng, *values):
    return values[rng.integers(len(values))]


def random_options(rng):
    return {
        "alpha": pick(rng, 0.2, 0.2, 1e-10, 1e-100, 1e3, 1e12),
        "gamma": pick(rng, 3.0, 1e-6, 1e3, 1e15),
        "recall": bool(rng.random() < 0.6),
        "window": pick(rng, 1, 2, 5, 12, 30),
        "sweep_every": pick(rng, 1, 2, 4, 9, 20),
        "n_sweeps": pick(rng, 0, 1, 2),
        "look_back": pick(rng, 0, 4, 32, 1000),
        "birth_threshold": pick(rng, 0.05, 1e-12, 1 - 1e-12, 0.5),
        "max_tables": pick(rng, 1, 2, 5, 64),
    }


def random_rows(rng, n):
    """Rows with their likelihood; the last value says whether sums of squares keep their digits."""
    d = pick(rng, 1, 1, 2, 5)
    label = np.repeat(rng.integers(0, 4, n), rng.integers(1, 15, n))[:n]
    family = pick(rng, "gamma", "wishart", "dirichlet", "poisson", "bernoulli")
    sharp = True
    if family in {"gamma", "wishart"}:
        scale, offset = pick(rng, 1.0, 1e-6, 1e6), pick(rng, 0.0, 1e9)
        X = offset + scale * (rng.normal(0, 5, (4, d))[label] + rng.normal(size=(n, d)))
        kind = pick(rng, "plain", "constant column", "identical", "outliers", "far outliers")
        if kind == "constant column":
            X[:, 0] = X[0, 0]
        if kind == "identical":
            X[:] = X[0]
        if kind == "outliers":
            X[rng.integers(0, n, 3)] = offset + 1e3 * scale
        if kind == "far outliers":
            X[rng.integers(0, n, 3)] = pick(rng, 1e100, -1e100, 1e40)
        tight = scale**2 * pick(rng, 0.5, 1e-6)
        if family == "gamma":
            likelihood = NormalGamma(offset, pick(rng, 0.05, 1e-7), 1.5, tight)
        else:
            likelihood = NormalWishart(offset, 0.05, tight, d + 1.5)
        sharp = kind != "far outliers"
    elif family == "bernoulli":
        X = (rng.random((n, d)) < rng.random((4, d))[label]).astype(float)
        likelihood = BetaBernoulli(0.5, pick(rng, 0.5, 1e-6))
    else:
        X = rng.poisson(pick(rng, 0.1, 3.0, 1e3) * rng.random((4, d))[label]).astype(float)
        likelihood = GammaPoisson(pick(rng, 1.0, 1e-6), pick(rng, 1.0, 1e-6))
        if family == "dirichlet":
            likelihood = DirichletMultinomial(pick(rng, 0.5, 1e-6, 50.0), pick(rng, d, None))
    if rng.random() < 0.3:
        X[rng.random(X.shape) < 0.3] = np.nan
        X[rng.random(n) < 0.2] = np.nan
    return X, likelihood, sharp


def random_times(rng, n):
    """Times with ties and now and then an enormous gap."""
    gaps = rng.exponential(1.0, n) * (rng.random(n) < 0.7)
    if rng.random() < 0.3:
        gaps[rng.integers(0, n, 2)] = pick(rng, 100.0, 1e6, 1e149)
    return np.cumsum(gaps)


class Twin(DenseStream):
    """The dense twin, in log space, with the prior cut at the halo as the engine cuts it."""

    ambiguous = False  # several atoms retired at once: their order is not seen from outside

    def learn(self, x, t, given):
        known = set(self._ids())
        try:
            return super().learn(x, t, given)
        except AssertionError:
            self.ambiguous = True
            self.retired += [i for i in known if i not in set(self._ids()) and i not in self.merged]
            alive = set(self._keys())
            self.members = {k: v for k, v in self.members.items() if k in alive}

    def log_weights(self, i, j):
        log_f = self.decay.log_weight(self.t[i] - np.array(self.t)[j])
        return log_f if self.config.tied else np.where(i - j > self.config.halo, -np.inf, log_f)

    def _unfold(self, i, weights):
        row = {}
        for key, q in weights.items():
            if q > 0:
                j = np.array(self.members[key])
                log_f = self.log_weights(i, j)
                share = np.exp(log_f - log_f.max())
                for a, b in zip(j, q * share / share.sum(), strict=True):
                    row[int(a)] = row.get(int(a), 0.0) + b
        return row

    def bound(self):
        A, births, order, Z = self.tables()
        if len(order) > 1:  # at a tie rounding decides which group a frozen row joined
            second, first = np.sort(Z[: len(self.links)], axis=1)[:, -2:].T
            self.ambiguous |= bool((first - second < 1e-9).any())
        total, log_alpha, gamma = 0.0, np.log(self.config.alpha), self.config.gamma
        for i, row in enumerate(A):
            log_p = np.append(self.log_weights(i, np.arange(i)), log_alpha)
            log_p -= logsumexp(log_p)
            used = row[:i] > 0
            total += (row[:i][used] * (log_p[:i][used] - np.log(row[:i][used]))).sum()
            total += sum(s * (log_p[i] - np.log(s)) for s in births[i].values())
        total += self.likelihood.log_marginal(Z.T @ self.likelihood.suffstats(self.X)).sum()
        if self.config.recall:
            c = np.array([sum(b.get(k, 0.0) for b in births) for k in order])
            b = gamma + np.concatenate([np.cumsum(c[::-1])[::-1][1:], [0.0]])
            # log Gamma(b) / Gamma(b + 1 + c) without the difference of two huge numbers
            far = -(b - 0.5) * np.log1p((1 + c) / b) - (1 + c) * (np.log(b + 1 + c) - 1)
            near = gammaln(np.minimum(b, 1e9)) - gammaln(np.minimum(b, 1e9) + 1 + c)
            total += (gammaln(1 + c) + np.where(b > 1e8, far, near) + np.log(gamma)).sum()
        return total


def assert_sound(state):
    arrays = arrays_of(state)
    for name, values in arrays.items():
        if name not in {"rows.x", "rows.past"} and values.dtype.kind == "f":
            # where nothing is noted of an event there is no time
            assert name in {"events.earliest", "events.latest"} or not np.isnan(values).any(), name
            assert not (values == np.inf).any(), name
    if len(arrays["rows.t"]):
        q = np.tril(arrays["rows.links"], -1).sum(1) + arrays["rows.births"].sum(0)
        np.testing.assert_allclose(q + arrays["rows.group_links"].sum(1), 1.0, atol=1e-10)
        np.testing.assert_allclose(arrays["rows.probs"].sum(0), 1.0, atol=1e-9)


def same_arrays(a, b):
    return all(np.array_equal(a[name], b[name], equal_nan=True) for name in a)


@pytest.mark.filterwarnings("ignore:overflow", "ignore:divide", "ignore:invalid")
@given(seed=SEEDS, clocked=st.booleans())
def test_engine_on_unkind_data(seed, clocked):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(5, 60))
    options, (X, likelihood, sharp) = random_options(rng), random_rows(rng, n)
    X, _ = likelihood.prepare(X)
    t = random_times(rng, n) if clocked else np.arange(n, dtype=float)
    decay = pick(rng, *NAMED, *USER)
    tied, halo = halo_of(decay, options["alpha"], options["window"], clocked=clocked)
    config = make_config(
        family=likelihood.family, hyper=likelihood.hyper(X.shape[1]),
        decay=(decay.code, decay.location, decay.scale), tied=tied, halo=halo, **options,
    )  # fmt: skip
    twin = Twin(config, empty_state(config, capacity=2), decay, likelihood)
    for i, x in enumerate(X):
        weights = given_weights(decay, config, twin.state, t[i : i + 1], clocked=clocked)
        before = arrays_of(twin.state)
        out, probs = predict_row(config, twin.state, x, float(t[i]), weights)
        assert same_arrays(before, arrays_of(twin.state))
        assert probs.sum() + out[P_NEW] == pytest.approx(1.0, abs=1e-9)
        assert np.isfinite(np.delete(out, P_CHANGE)).all()  # of a run, once it is learned
        if rng.random() < 0.2:
            twin.state = state_from_arrays(config, before)
            assert same_arrays(before, arrays_of(twin.state))
        learned = twin.learn(x, t[i], weights)
        if learned is not None:  # p_change and state are of the row once it is learned
            late = [P_CHANGE, FILTERED, SETTLED]
            np.testing.assert_array_equal(np.delete(out, late), np.delete(learned, late))
        assert_sound(twin.state)
        assert twin.state.n_tables <= options["max_tables"] or not options["recall"]
        if i % 9 == 8 or i == n - 1:
            value = bound(config, twin.state)
            assert np.isfinite(value)
            twin.bound()  # finds out whether the twin is ambiguous
            if sharp and not twin.ambiguous:  # abs: retired tables keep 1e-12 of a row
                twin.assert_bound(value, rel=1e-6, abs=1e-4)


def features(row):
    return {d: None if np.isnan(v) else v for d, v in enumerate(row.tolist())}


def batch_of(X):
    if not np.isnan(X).any() and (np.floor(X) == X).all() and (np.abs(X) < 2**53).all():
        X = X.astype(np.int64)  # "auto" takes whole numbers for counts if they come as such
    columns = {str(d): pa.array(X[:, d], mask=np.isnan(X[:, d])) for d in range(X.shape[1])}
    return pa.table(columns)


@pytest.mark.filterwarnings("ignore:overflow", "ignore:divide", "ignore:invalid")
@given(seed=SEEDS, clocked=st.booleans(), auto=st.booleans())
def test_estimator_on_unkind_data(seed, clocked, auto):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(5, 50))
    X, likelihood, _ = random_rows(rng, n)
    X = np.nan_to_num(X, nan=1.0) if auto else X
    t = random_times(rng, n) if clocked else None
    options = random_options(rng) | {
        "decay": pick(rng, *NAMED), "warmup": int(rng.integers(1, 6)),
        "likelihood": "auto" if auto else likelihood, "time_unit": pick(rng, None, 1.0),
    }  # fmt: skip
    table, cut = batch_of(X), int(rng.integers(0, n))
    whole, parts, rows = (SeqDDCRP(**options) for _ in range(3))
    try:
        whole.learn_many(table, t)
    except StreamDDCRPError:
        assert whole.to_bytes() == SeqDDCRP(**options).to_bytes()
        return
    parts.learn_many(table[:cut], None if t is None else t[:cut])
    parts = SeqDDCRP.from_bytes(copy.deepcopy(pickle.loads(pickle.dumps(parts))).to_bytes())
    parts.learn_many(table[cut:], None if t is None else t[cut:])
    assert parts.to_bytes() == whole.to_bytes()
    for i, row in enumerate(table.to_pylist()):
        rows.learn_one(row, None if t is None else float(t[i]))
    assert rows.to_bytes() == whole.to_bytes()
    for x in (table.to_pylist()[0], dict.fromkeys(table.column_names)):
        assert sum(whole.predict_proba_one(x).values()) == pytest.approx(1.0, abs=1e-9)
        whole.predict_one(x)
        whole.score_one(x)
    assert whole.to_bytes() == rows.to_bytes()
    with pytest.raises(StreamDDCRPError):
        whole.learn_one({"0": float("inf")}, None if t is None else 9e149)
    with pytest.raises(StreamDDCRPError):
        whole.learn_many(table, t[::-1] - 1.0 if clocked else np.arange(float(n)))
    assert whole.to_bytes() == rows.to_bytes()
    assert np.isfinite(whole.objective)


@pytest.mark.parametrize("clocked", [False, True])
@given(seed=SEEDS)
@example(seed=7662)  # whole counts: a merge finds the sums that it made
def test_open_vocabulary_grows_alike_in_any_cutting(clocked, seed):
    rng = np.random.default_rng(seed)
    counts = rng.poisson(rng.gamma(0.3, 2.0, (3, 12))[rng.integers(0, 3, 30)])
    documents = [{f"w{d:02}": int(c) for d, c in enumerate(row) if c} for row in counts]
    t = random_times(rng, len(documents)) if clocked else [None] * len(documents)
    options = {"likelihood": DirichletMultinomial(20.0), "warmup": 6, "window": 8}
    model, twin = SeqDDCRP(**options), SeqDDCRP(**options)
    for x, time in zip(documents, t, strict=True):
        model.learn_one(x, time)
        before = twin.to_bytes()
        twin.score_one({"never seen": 2, **x})
        assert twin.to_bytes() == before
        twin = SeqDDCRP.from_bytes(before)
        twin.learn_one(x, time)
    assert twin.to_bytes() == model.to_bytes()
    assert np.isfinite(model.objective)


def evidence(X, likelihood, log_p):
    """Log evidence by enumeration of all link vectors."""
    stats, cache, terms = likelihood.suffstats(X), {}, []
    for links in itertools.product(*[range(i + 1) for i in range(len(X))]):
        total, root = 0.0, []
        for i, j in enumerate(links):
            total += log_p[i, j]
            root.append(i if i == j else root[j])
        for k in set(root):
            members = tuple(i for i, r in enumerate(root) if r == k)
            if members not in cache:
                cache[members] = likelihood.log_marginal(stats[list(members)].sum(axis=0))[0]
            total += cache[members]
        terms.append(total)
    return logsumexp(terms)


@pytest.mark.filterwarnings("ignore:overflow", "ignore:divide", "ignore:invalid")
@given(seed=SEEDS, clocked=st.booleans())
def test_batch_on_unkind_data(seed, clocked):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 25))
    X, likelihood, sharp = random_rows(rng, n)
    t = random_times(rng, n) if clocked else None
    decay, alpha = pick(rng, *NAMED, *USER), random_options(rng)["alpha"]
    options = {"alpha": alpha, "decay": decay, "t": t, "max_sweeps": 60}
    rows = np.ma.masked_invalid(X) if np.isnan(X).any() else X
    fit = fit_seqddcrp(rows, likelihood, seed=0, merge=seed % 3 > 0, **options)
    q, Z = fit.links.toarray(), fit.table_probs.toarray()
    assert np.isfinite(fit.bound_trace).all()
    np.testing.assert_allclose(q.sum(axis=1), 1.0, atol=1e-9)
    np.testing.assert_allclose(Z.sum(axis=1), 1.0, atol=1e-9)
    if not sharp:
        return
    slack = 1e-7 * abs(fit.bound) + 1e-6
    assert (np.diff(fit.bound_trace) >= -slack).all()
    log_p = prior_links(decay, alpha, n if t is None else t)
    R = np.linalg.inv(np.eye(n) - np.tril(q, -1))
    np.testing.assert_allclose(Z, (R * q.diagonal())[:, fit.openers], atol=1e-9)
    links = (q[q > 0] * (log_p[q > 0] - np.log(q[q > 0]))).sum()
    tables = likelihood.log_marginal((R * q.diagonal()).T @ likelihood.suffstats(X)).sum()
    assert fit.bound == pytest.approx(links + tables, abs=slack)
    again = fit_seqddcrp(rows, likelihood, init=fit.links, **options)
    assert again.bound >= fit.bound - slack
    if n <= 5:
        assert fit.bound <= evidence(X, likelihood, log_p) + slack
