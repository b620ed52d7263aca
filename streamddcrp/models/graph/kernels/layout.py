"""Schemes of resampling, purposes of random numbers, further entries of the scalar arrays."""

from streamddcrp.particles.kernels.layout import N_COUNTS as _COMMON

OPTIMAL = 0
SYSTEMATIC = 1
STRATIFIED = 2
N_BEST = 3

# purposes of random numbers
RESAMPLE = 0
MERGE = 1
CHOOSE = 2
REVISE_WHICH = 3
REVISE_WHERE = 4

# counts, after those of the engine
STAMP = _COMMON  # of what was worked out last; no two alike within a process
N_COUNTS = _COMMON + 1
