"""With a window longer than the stream, streaming sweeps are batch sweeps."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from streamddcrp import fit_seqddcrp
from streamddcrp.decay import Exponential, NoDecay, Window
from streamddcrp.likelihoods import NormalGamma
from streamddcrp.models.seqddcrp.batch import _Batch, link_prior
from streamddcrp.models.seqddcrp.config import halo_of, make_config
from streamddcrp.models.seqddcrp.engine import bound, given_weights
from streamddcrp.models.seqddcrp.kernels.layout import N_ROWS, N_TABLES
from streamddcrp.models.seqddcrp.kernels.state import forward, refresh_totals
from streamddcrp.models.seqddcrp.kernels.sweep import sweep
from streamddcrp.models.seqddcrp.state import empty_state
from tests.properties.test_stream_bound import learned

LIKELIHOOD = NormalGamma(0.0, 0.05, 1.5, 0.5)
ALPHA = 0.2


def streamed(X, decay, sweep_every):
    n = len(X)
    tied, halo = halo_of(decay, ALPHA, n, clocked=False)
    config = make_config(
        family=LIKELIHOOD.family, hyper=LIKELIHOOD.hyper(1),
        decay=(decay.code, decay.location, decay.scale), alpha=ALPHA, gamma=np.inf, recall=False,
        window=n, sweep_every=sweep_every, n_sweeps=1, look_back=0, birth_threshold=1e-3,
        max_tables=n + 1, tied=tied, halo=halo,
    )  # fmt: skip
    state = empty_state(config)
    t = np.arange(n, dtype=float)
    given_ = given_weights(decay, config, state, t, clocked=False)
    return config, learned(config, state, X, t, given_)


def links_of(state):
    """q(c) of the whole stream, which is all in the window, as an (N, N) matrix."""
    n, K = int(state.counts[N_ROWS]), int(state.counts[N_TABLES])
    q = np.tril(state.rows.links[:n, :n], -1)
    q[np.arange(n), np.arange(n)] = state.rows.births[:K, :n].sum(0)
    return q


def stream_sweep(config, s):
    sweep(config, s.rows, s.groups, s.atoms, s.table, s.counts, s.scratch, 0)
    forward(s.rows, s.groups, s.atoms, s.counts, s.scratch, 0)
    refresh_totals(config, s.rows, s.atoms, s.table, s.counts, s.sums, s.scratch)
    return bound(config, s)


def refresh(config, s):
    forward(s.rows, s.groups, s.atoms, s.counts, s.scratch, 0)
    refresh_totals(config, s.rows, s.atoms, s.table, s.counts, s.sums, s.scratch)


@pytest.mark.parametrize("decay", [NoDecay(), Exponential(4.0), Window(6)], ids=repr)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 40), sweep_every=st.integers(1, 12))
def test_same_schedule_same_numbers_and_same_fixed_points(decay, seed, n, sweep_every):
    rng = np.random.default_rng(seed)
    label = np.repeat(rng.integers(0, 3, n), rng.integers(1, 9, n))[:n]
    X = (np.array([-6.0, 0.0, 7.0])[label] + rng.normal(size=n))[:, None]
    config, state = streamed(X, decay, sweep_every)
    refresh(config, state)
    batch = _Batch(
        X, LIKELIHOOD.family, LIKELIHOOD.hyper(1), link_prior(decay, ALPHA, n),
        sp.csr_array(links_of(state)),
    )  # fmt: skip
    assert batch.restore() == pytest.approx(bound(config, state), rel=1e-10)
    for _ in range(3):
        mine, theirs = stream_sweep(config, state), batch.sweep(ascending=False)
        assert mine == pytest.approx(theirs, rel=1e-8)
        q = batch.result([theirs], False).links.toarray()
        # Floors (1e-8 for births) may cut an option in one and keep it in the other.
        np.testing.assert_allclose(links_of(state), q, atol=1e-6)
    before = -np.inf
    for _ in range(400):
        after = stream_sweep(config, state)
        if after - before <= 1e-13 * abs(after):
            break
        before = after
    fit = fit_seqddcrp(
        X, LIKELIHOOD, alpha=ALPHA, decay=decay, init=sp.csr_array(links_of(state)), merge=False,
        max_sweeps=6, tol=0.0,
    )  # fmt: skip
    assert fit.bound == pytest.approx(after, rel=1e-7)
