"""Entries of scalar arrays and columns of outputs that the particle filters have in common."""

# counts (int64); a method's own ones follow
N_SEEN = 0  # arrivals learned so far; the next one's index
FIRST = 1  # arrival index of the oldest customer that is remembered
MOST_TABLES = 2  # of any particle
N_NAMES = 3  # tables that any particle has
N_LIVE = 4  # tables that particles of at least half the weight have
N_EVENTS = 5  # events since the start; the log holds the last of them
N_COUNTS = 6

# sums (float64)
LOG_EVIDENCE = 0
