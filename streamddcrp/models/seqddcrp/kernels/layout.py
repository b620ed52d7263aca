"""Names of entries in the outputs and in the two scalar arrays of the state."""

from streamddcrp.contract import N_OUTPUTS

# outputs, behind those of all models
OUTLIER = N_OUTPUTS  # 1 if the most probable table is not yet established
FILTERED = N_OUTPUTS + 1  # id of the state: `kernels.states`
SETTLED = N_OUTPUTS + 2  # id of its regime, shown as the state: `kernels.regimes`
N_COLUMNS = N_OUTPUTS + 3

# counts (int64)
N_ROWS = 0  # customers in the window, oldest first
N_GROUPS = 1
N_TABLES = 2
N_SEEN = 3  # arrivals learned so far; the next one's index
NEXT_ID = 4
SINCE_BLOCK = 5  # arrivals since the last block of evictions and sweeps
N_EVENTS = 6  # events since the start; the ring holds the last ones
N_FORBIDDEN = 7  # arrivals that could not open a table because all were in use
N_ACTIVE = 8  # columns where a customer in memory may sit
N_BLOCKS = 9
REGIME = 10  # id of the table of the present run, -1 before the first
ENOUGH = 11  # rows required for an atom to be known
N_LASTED = 12  # removed atoms that had lasted
FAILED = 12  # and those that failed with n rows, at FAILED + n for 0 < n < 32
RUNS_LAST = 44  # whether rows of an atom are mostly consecutive
STATE = 45  # id of the settled state, -1 before the first row
LIKELY = 46  # id of the most probable state at the last row that is not an outlier
N_FOUNDED = 47  # mixed states so far
N_RETURNED = 48  # and their returns
N_MIXED = 49  # rows whose most probable state was mixed
N_LEFT = 50  # and transitions from them to another state
AT = 51  # index of the mixed state that was most probable, -1: none
ASKED = 52  # id that the last row first asked `state` to change to; -1: none
N_ASKED = 53  # such rows so far
N_HELD = 54  # and how many were confirmed by the next row
N_KEPT = 55  # evicted rows that the ring has received
N_COUNTS = 56

# sums (float64)
FROZEN_BOUND = 0  # link terms of evicted rows, log marginals of retired tables
DEAD_BIRTHS = 1  # expected openings of retired atoms
DEAD_LOG_MASS = 2  # decay mass of dropped groups, at time DEAD_TIME
DEAD_TIME = 3
LAST_TIME = 4
NEW_LOG_BETA = 5  # log weight of an atom not used before, for an opening
NEW_BETA = 6  # expected stick weight of atoms without a column: docs/math/atoms.md (6b)
LOG_ALPHA = 7  # used for the next arrival
FROZEN_OPENINGS = 8  # expected openings by evicted customers
FROZEN_RATE = 9  # sum of 1 / S over evicted customers; both fade
REDRAWN = 10  # rows that redrew their table, by the filter, of those it followed; both fade
FOLLOWED = 11
WANDER_LEAD = 12  # nats by which visits favour wandering levels
RETURN_LEAD = 13  # nats by which visits and births favour returning atoms
SPEED = 14  # of link decay time, LAG + SPEED t
LAG = 15
DEPENDENCE = 16  # nats by which columns depend on each other in mixed states; fades
N_SUMS = 17
