"""Which run of last rows the engine moves to another table: all of them, by the definition."""

from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamddcrp.decay import Exponential
from streamddcrp.likelihoods import NormalGamma
from streamddcrp.models.seqddcrp.kernels.layout import N_ACTIVE, N_ROWS, N_TABLES, NEW_LOG_BETA
from streamddcrp.models.seqddcrp.kernels.moves import COPIES, _best_run, add_rows, log_marginal
from streamddcrp.models.seqddcrp.kernels.state import settle
from tests.oracles.dense_stream import DenseStream
from tests.oracles.plain import plain
from tests.properties.test_likelihood_laws import cases
from tests.properties.test_stream_bound import engine, gaussian_stream

LIKELIHOOD = NormalGamma(0.0, 0.05, 1.5, 0.5)


def gains(config, state, r):
    """Return Delta(Q) of `_best_run` for the last ``r`` rows and each column, a new one last."""
    rows, atoms, table, scratch = state.rows, state.atoms, state.table, state.scratch
    w, K = int(state.counts[N_ROWS]), int(state.counts[N_TABLES])
    run = range(w - r, w)

    def evidence(stats):
        return plain(log_marginal)(config.family, config.hyper, stats, scratch.post)

    def told(m):
        stats = np.zeros_like(scratch.stats)
        one = [config.family, config.hyper, rows.x, scratch.columns, rows.probs[m]]
        plain(add_rows)(*one, w - r, w, stats)
        return stats

    links = np.array([np.exp(rows.log_weight[i, w - r : i]).sum() for i in run[1:]])
    opening = np.exp(rows.log_birth[w - r + 1 : w] - 1.0) if config.recall else 0.0
    gain = rows.log_birth[w - r] - rows.term[w - r : w].sum() + np.log(links + opening).sum()
    taken = {m: told(m) for m in atoms.active[: state.counts[N_ACTIVE]].tolist()}
    here = {m: evidence(table.stats[m] - part) - evidence(table.stats[m])
            for m, part in taken.items()}  # fmt: skip
    gain += sum(here.values())
    all_of_it = sum(taken.values())
    found = []
    for k in range(K):
        left = table.stats[k] - taken.get(k, 0.0)
        more = evidence(left + all_of_it) - evidence(left) if table.stats[k, 0] >= 4 else -np.inf
        found.append(gain + atoms.log_beta[k] + more)
    return [*found, gain + state.sums[NEW_LOG_BETA] + evidence(all_of_it)]


@pytest.mark.parametrize("recall", [False, True])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_run_with_the_largest_gain_is_found(seed, recall):
    config, state = engine(LIKELIHOOD, Exponential(3.0), window=16, look_back=0, recall=recall)
    twin, lengths = DenseStream(config, state, Exponential(3.0), LIKELIHOOD), set()
    for i, x in enumerate(gaussian_stream(np.random.default_rng(seed), 90)):
        twin.learn(x, i)
        if i % 11 or i < 22:
            continue
        state = deepcopy(twin.state)
        atoms, sums = state.atoms, state.sums
        plain(settle)(
            config, state.rows, state.groups, atoms, state.table, state.counts, sums,
            state.scratch, 0,
        )  # fmt: skip
        atoms.log_beta[:] += 30.0  # else sweeps have left nothing to gain
        sums[NEW_LOG_BETA] += 30.0
        longest, K = int(state.counts[N_ROWS]) - 1, int(state.counts[N_TABLES])
        begin = 0 if recall else K
        by_length = {r: gains(config, state, r)[begin:] for r in range(2, longest + 1)}
        gain, length = max((max(g), r) for r, g in by_length.items())
        assert gain > 0.0
        found = plain(_best_run)(
            config, state.rows, atoms, state.table, state.counts, sums, state.scratch, 2, longest,
            False, begin, K + 1,
        )  # fmt: skip
        assert found == (length, begin + int(np.argmax(by_length[length])))
        lengths.add(length)
    assert len(lengths) > 2


@given(cases(), st.floats(0.0, 40.0))
def test_no_table_gives_rows_more_than_their_largest_likelihood(case, scale):
    """Up to P log c / c with P < 40 statistics and log c < 25: 1e-6."""
    run = case.stats(z=np.ones(len(case.X)))
    known = scale * case.stats() + case.family.suffstats(case.x)[0]
    after, before, most = case.family.log_marginal([known + run, known, COPIES * run])
    assert after - before <= most / COPIES + 1e-6 + case.tol * (1.0 + abs(before))
