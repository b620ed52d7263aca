"""Blocked Gibbs sampling of the temporal Dirichlet-process mixture, as a baseline.

The finite model: K slots whose means drift from the first epoch on,

    phi_k0 ~ N(m0, P0),   phi_kt ~ N(phi_k,t-1, Q),   x_ti ~ N(phi_{c_ti, t}, R),
    pi_t ~ Dirichlet(a0 + m'_1t, .., a0 + m'_Kt),   c_ti ~ pi_t,   a0 = alpha / K,

m'_kt being the decayed number of rows of slot k in the epochs before, all pi integrated out. A
sweep draws every chain given the rows at it (forward filtering, backward sampling) and every row's
slot given the chains and all other rows, the counts of later epochs included (the factors R_d).
Exact for the finite model. O(N K (D + width)) a sweep for N rows at most, O(N K D) typically: only
slots whose counts have changed are computed again.

The sampler of the infinite model that moves one row at a time is left out on purpose: it cannot
join again a chain that it has split by taking away the one row that bridged a silence.

References
----------
A. Ahmed and E. P. Xing. Dynamic non-parametric mixture models and the recurrent Chinese restaurant
process. SDM 2008.
"""

from benchmarks.baselines.tdpm_gibbs.sampler import TemporalDPMSamples, sample_temporal_dpm

__all__ = ["TemporalDPMSamples", "sample_temporal_dpm"]
