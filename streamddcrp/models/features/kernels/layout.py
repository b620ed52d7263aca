"""Entries of the scalar arrays, columns of outputs, limits, purposes of random numbers."""

# counts (int64)
N_SEEN = 0  # arrivals so far
N_ACTIVE = 1  # particles with a weight
N_NAMED = 2  # public ids given so far
N_EVENTS = 3  # births and deaths so far
N_COUNTS = 4

# sums (float64)
LOG_EVIDENCE = 0
SHAPE = 1  # of the noise variance; 0 where it is known
N_SUMS = 2

# columns of out
LOG_DENSITY = 0
P_NEW = 1  # probability that the row has a feature that no row had before
N_FEATURES = 2  # number of live features before the row
N_OUTPUTS = 3

N_REPORTED = 64  # features that are reported of a row, at most
LIVE = 0.5  # weight of the particles that have a feature from which on it is live
MOST_FEATURES = 63  # a particle, one of them the baseline
MOST_NEW = 12  # new features of a row
MOST_ENUMERATED = 8  # features of an arrival of which all subsets are weighed
MOST_TOGETHER = 6  # features of a past row that are resampled jointly
MOST_REDRAWN = 3  # one more than the new features that a resampled past row may get

# kinds of events
BIRTH, DEATH, MERGE_EVENT = 0, 1, 2

# purposes of random numbers
FEW, ALL, MERGE, ROW, CHOICE, IMPUTE, PROPOSAL, SUBSET, SCALE, RESCALE = range(10)
