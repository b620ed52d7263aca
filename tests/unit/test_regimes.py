"""Regimes over states: their evidence by quadrature and the slow way, what they merge and keep."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.signal import lfilter
from scipy.special import gammaln
from sklearn.metrics import adjusted_rand_score

from streamddcrp import SeqDDCRP
from streamddcrp.models.seqddcrp import regimes
from streamddcrp.models.seqddcrp.kernels import regimes as kernels
from streamddcrp.models.seqddcrp.kernels import stays as parts
from streamddcrp.models.seqddcrp.kernels.layout import FILTERED, N_COLUMNS, SETTLED
from tests.oracles.plain import plain


def regimes_of(X, states):
    """Return the regime of each row of ``X`` (N, D), given its state (N,), and what they store."""
    found, out = regimes.Regimes.over(X.shape[1]), np.zeros((len(X), N_COLUMNS))
    out[:, FILTERED] = states
    found.step(X, out, len(out))
    return out[:, SETTLED].astype(int), found


def visits(rng, levels, n_stays, spread=0.0):
    """Rows of stays of 40 rows; column 0 has the regime's level, the last one its own each time."""
    y = np.repeat(rng.integers(len(levels), size=n_stays), 40)
    own = np.repeat(rng.normal(0.0, spread, n_stays), 40)
    X = np.column_stack([np.asarray(levels)[y], own]) + rng.normal(0.0, 0.3, (len(y), 2))
    return X, y, np.repeat(np.arange(n_stays), 40)


@pytest.mark.parametrize("seed", range(3))
def test_the_evidence_of_stays_is_their_marginal_density(seed):
    """Equation (2) by quadrature over the level, up to the constant for each stay."""
    rng, n = np.random.default_rng(seed), 4
    y, noise, unit = rng.normal(size=n), rng.gamma(2.0, 0.1, n), 0.03
    prior = rng.dirichlet(np.ones(parts.LADDER))
    sums, work = np.zeros((2, parts.LADDER, 4)), np.empty(parts.LADDER)
    for at, (value, spread) in enumerate(zip(y, noise, strict=True)):
        plain(parts._add)(sums[int(at < 2)], value, spread, unit)
    between = unit * parts.SMALLEST * 10.0 ** np.arange(parts.LADDER)

    def density(mean, at):
        sd = np.sqrt(between[:, None] + noise[at])
        return prior @ stats.norm.pdf(y[at], mean, sd).prod(axis=1) * stats.norm.pdf(mean)

    scratch = SimpleNamespace(sums=sums, prior=np.log(prior), work=work)
    evidence = plain(parts.evidence)
    for sign, at in ((0.0, [0, 1]), (1.0, [0, 1, 2, 3])):
        wanted = integrate.quad(density, -8.0, 8.0, args=(at,), points=[*y], limit=200)[0]
        found = evidence(scratch, 1, sign, 0) - 0.5 * len(at) * np.log(2.0 * np.pi)
        assert found == pytest.approx(np.log(wanted), abs=1e-7)
    # and without those that were added: what remains is the first two
    sums[0] += sums[1]
    left = evidence(scratch, 0, -1.0, 1)
    sums[0] -= sums[1]
    assert left == pytest.approx(evidence(scratch, 0, 0.0, 0), abs=1e-9)


@pytest.mark.parametrize("lead", [-900.0, -3.0, 0.0, 2.0, 900.0])
@pytest.mark.parametrize("shared", [0.2, 0.7, 0.999, 1.0])
def test_two_regimes_may_share_a_level(lead, shared):
    """Equation (5): agreement counts for -log p at most, difference in full."""
    found = plain(parts.alike)(lead, shared)
    other = np.log1p(-shared) - lead if shared < 1.0 else -np.inf
    wanted = -np.logaddexp(np.log(shared), other)
    assert found == pytest.approx(wanted, abs=1e-9)
    assert found <= -np.log(shared) + 1e-12


@pytest.mark.parametrize("seed", range(2))
def test_gains_are_those_of_all_features_the_slow_way(seed):
    """Equations (1) to (5) from the rows themselves."""
    rng = np.random.default_rng(seed)
    X, _, states = visits(rng, [0.0, 3.0], 9, spread=2.0)
    last = regimes_of(X, states)[1]  # the present stay is not remembered
    past, counts, scratch = (
        last.past,
        last.counts,
        regimes.Scratch(*[array.copy() for array in regimes._SCRATCH]),
    )
    n, v = 8, 3
    past.regime[:n] = np.array([0, 0, 2, 2, 4, 4, 4, 7])
    past.state[:n] = np.array([0, 1, 2, 3, 4, 4, 6, 7])
    past.seam[:n] = [0.0, *rng.uniform(0.5, 4.0, n - 1)]
    plain(kernels._place)(past, counts, scratch)
    plain(kernels._weigh)(past, counts, scratch, v)
    home, gain, join = [2, 3], np.zeros(n), np.zeros(n)
    seam = past.seam
    gain[2], gain[4] = seam[3], seam[4]  # stay 3 follows one of its own regime, and 4 follows it
    join[0], join[4] = seam[2], seam[4]
    for d in range(2):
        stays = [X[states == k, d] for k in range(n)]
        floor = parts.SMOOTH * X[:, d].var()
        rough = np.array([0.5 * np.mean(np.diff(x) ** 2) for x in stays]) + floor
        W = np.sort(rough)[n // 2]
        size, own = np.array([(len(x), x.var()) for x in stays]).T
        drift = np.minimum(1.0, 2.0 * own / (rough * size))
        for y, noise, unit, least in (
            (np.array([x.mean() for x in stays]), np.maximum(10.0 * W / size, own * drift), W,
             X[:, d].var()),
            (np.log(rough), 20.0 / (size - 2.0), parts.ROUGHNESS, 1.0),
        ):  # fmt: skip
            scale = max(y.var(), least)
            z = (y - y.mean()) / np.sqrt(scale)
            evidence, p = slow_evidence(z, noise / scale, unit / scale)
            groups = {0: [0, 1], 4: [4, 5, 6], 7: [7]}
            for r, stays_there in groups.items():
                for at, out in (([v], gain), (home, join)):
                    lead = evidence(stays_there + at) - evidence(stays_there) - evidence(at)
                    out[r] -= np.log(p + (1.0 - p) * np.exp(-lead))
            lead = evidence(home) - evidence([2]) - evidence([v])
            gain[2] -= np.log(p + (1.0 - p) * np.exp(-lead))
    np.testing.assert_allclose(scratch.gain[:n], gain, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(scratch.join[:n], join, rtol=1e-6, atol=1e-8)


def slow_evidence(z, s, unit):
    """Return the evidence of a set of stays, (2), and the share of levels, (3) and (4)."""
    between = unit * parts.SMALLEST * 10.0 ** np.arange(parts.LADDER)

    def by_variance(at):
        at, logs = list(at), []
        for b in between:
            cov = np.ones((len(at), len(at))) + np.diag(b + s[at])
            log_p = stats.multivariate_normal.logpdf(z[at], np.zeros(len(at)), cov)
            logs.append(log_p + 0.5 * len(at) * np.log(2.0 * np.pi))
        return np.array(logs)

    first = np.exp(-np.arange(parts.LADDER)) * np.where(between > parts.WIDEST, 1e-6, 1.0)
    several, one = np.log(first), np.log(first) + by_variance(range(len(z))) + gammaln(len(z))
    for b in range(parts.LADDER):
        levels = []
        for v in np.argsort(z, kind="stable"):
            last = levels[-1] if levels else []
            both, alone = by_variance([*last, v])[b], by_variance([v])[b]
            if last and both + np.log(len(last)) > by_variance(last)[b] + alone:
                last.append(v)
            else:
                levels.append([v])
        several[b] += sum(by_variance(at)[b] + gammaln(len(at)) for at in levels)
    log_w = several - np.logaddexp.reduce(several)
    log_w[log_w < parts.EXCLUDED] = -np.inf
    tells = max(1.0 - np.exp(np.logaddexp.reduce(one) - np.logaddexp.reduce(several)), 0.0)
    return lambda at: np.logaddexp.reduce(by_variance(at) + log_w), 1.0 - 0.8 * tells


def test_states_that_differ_by_one_stray_column_are_one_regime():
    """Each visit is a state of its own: the flag tells three regimes, the weather does not."""
    rng = np.random.default_rng(5)
    X, y, states = visits(rng, [0.0, 4.0, 8.0], 90, spread=5.0)
    found, _ = regimes_of(X, states)
    late = np.arange(len(y)) % 40 >= kernels.LEAST  # a new state is judged after 8 and 16 rows
    late[: len(y) * 2 // 3] = False
    assert adjusted_rand_score(y[late], states[late]) < 0.2
    assert adjusted_rand_score(y[late], found[late]) > 0.9


def test_a_bend_is_a_jump_less_the_slopes_around_it():
    """Equation (7), and by least squares: a step is itself, and a straight line is none."""
    rng, size = np.random.default_rng(8), 4 * parts.PART
    bend, near = plain(parts._bend), rng.normal(size=(size, 1))
    means = np.roll(near[:, 0], -3).reshape(4, -1).mean(axis=1)  # after row 2 the oldest is row 3
    left, right = means[1] - means[0], means[3] - means[2]
    wanted = means[2] - means[1] - 0.5 * (left + right)
    assert bend(near, 2, 0) == pytest.approx(wanted, abs=1e-12)
    line = 0.3 * np.arange(size)[:, None]
    assert bend(line, size - 1, 0) == pytest.approx(0.0, abs=1e-12)
    line[size // 2 :] += 2.0
    assert bend(line, size - 1, 0) == pytest.approx(2.0, abs=1e-12)
    line[: parts.PART] = np.nan
    assert np.isnan(bend(line, size - 1, 0))


@pytest.mark.parametrize(("step", "n_regimes"), [(0.0, 2), (3.0, 4)])
def test_a_ramp_is_of_the_regime_that_it_leads_to(step, n_regimes):
    """Each visit begins with a state of its own: a ramp ends without a jump, a step does not."""
    rng, n = np.random.default_rng(10), 24
    y, late = np.repeat(np.arange(n) % 2, 150), np.tile(np.arange(150) >= 60, n)
    level = lfilter([0.04], [1.0, -0.96], 6.0 * y) + step * late
    X = np.column_stack([20.0 * y, level]) + rng.normal(0.0, 0.1, (len(y), 2))
    found, _ = regimes_of(X, 2 * y + late)
    assert len(set(found[len(y) // 2 :].tolist())) == n_regimes


@pytest.mark.parametrize("n_others", [0, 8, 24])
def test_regimes_that_differ_in_one_of_many_columns_remain_two(n_others):
    rng = np.random.default_rng(6)
    y = np.repeat(np.arange(20) % 2, 60)
    X = np.column_stack([3.0 * y + rng.normal(size=len(y)), rng.normal(size=(len(y), n_others))])
    found, _ = regimes_of(X, y)
    assert found.tolist() == y.tolist()


def test_stays_are_counted_by_the_regimes_shown():
    X, _, states = visits(np.random.default_rng(7), [0.0, 4.0], 40, spread=5.0)
    found, kept = regimes_of(X, states)
    ended = np.flatnonzero(np.diff(found)) + 1
    lengths = np.diff(np.r_[0, ended])
    past, known = kept.past, kept.past.stay_ids >= 0
    assert past.stays[known, 1].sum() <= lengths.sum()
    assert int(kept.counts[kernels.STAYING]) == found[-1]
    assert len(set(past.stay_ids[known].tolist())) == known.sum()


@pytest.mark.parametrize("seed", range(3))
def test_any_cutting_and_a_restart_give_the_same_regimes(seed):
    rng = np.random.default_rng(seed)
    X, _, states = visits(rng, [0.0, 2.0, 4.0], 30, spread=3.0)
    X[rng.random(X.shape) < 0.05] = np.nan
    wanted, whole = regimes_of(X, states)
    out, cut = np.zeros((len(X), N_COLUMNS)), regimes.Regimes.over(2)
    out[:, FILTERED] = states
    edges = [0, *sorted(rng.integers(len(X), size=5).tolist()), len(X)]
    for a, b in pairwise(edges):
        cut.step(X[a:b], out[a:b], b)
        cut = regimes.Regimes.resumed(cut.kept(), 2, b)
    assert out[:, SETTLED].astype(int).tolist() == wanted.tolist()
    for name, array in whole.kept().items():
        np.testing.assert_array_equal(cut.kept()[name], array)


def test_summary_and_transitions_speak_of_regimes():
    rng = np.random.default_rng(9)
    X, y, _ = visits(rng, [0.0, 9.0, 18.0], 90, spread=4.0)
    model = SeqDDCRP()
    state = model.step_many(X)["state"].to_numpy()
    summary = model.summary().to_pylist()
    assert {row["regime"] for row in summary if row["rows"] > 50} <= set(state.tolist())
    late = len(y) * 2 // 3
    assert adjusted_rand_score(y[late:], state[late:]) > 0.8
    model.mark(int(state[-1]), "last", "planned")
    assert model.verdicts[int(state[-1])] == "planned"
    assert {r["name"] for r in model.summary().to_pylist() if r["regime"] == state[-1]} == {"last"}
