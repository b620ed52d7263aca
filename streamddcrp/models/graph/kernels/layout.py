"""Schemes of resampling, purposes of random numbers, further entries of the counts."""

from streamddcrp.particles.kernels.layout import N_COUNTS as _COMMON

OPTIMAL = 0
SYSTEMATIC = 1
STRATIFIED = 2
N_BEST = 3

# purposes of random numbers: of items, and of groups
RESAMPLE, MERGE, CHOOSE, REVISE_WHICH, REVISE_WHERE = range(5)
FIRST_DRAW, WHICH_EMPTY, WHICH_NODE, WHICH_ITEM, WHERE = range(1, 6)

# counts, after those of all particle filters
STAMP = _COMMON  # of the last scores; no two alike within a process
N_COUNTS = _COMMON + 1

NEGLIGIBLE = 1e-250  # weight of a particle that is left out
OPENED = 3  # hashes the number of clusters a particle opened, where alpha depends on it
