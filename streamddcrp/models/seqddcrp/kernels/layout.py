"""Names of the entries of outputs and of the two scalar arrays of the state."""

from streamddcrp.contract import N_OUTPUTS

# outputs, behind those of all models
OUTLIER = N_OUTPUTS  # 1 if the most probable table is not yet established
SETTLED = N_OUTPUTS + 1  # id of the state: `kernels.states`
N_COLUMNS = N_OUTPUTS + 2

# counts (int64)
N_ROWS = 0  # customers in the window, oldest first
N_GROUPS = 1
N_TABLES = 2
N_SEEN = 3  # arrivals learned so far; the next one's index
NEXT_ID = 4
SINCE_BLOCK = 5  # arrivals since the last block of evictions and sweeps
N_EVENTS = 6  # events since the start; the log holds the last of them
N_FORBIDDEN = 7  # arrivals whose new table was forbidden because the store was full
N_ACTIVE = 8  # columns that somebody in memory may sit at
N_BLOCKS = 9
REGIME = 10  # id of the table of the present run, -1 before the first
ENOUGH = 11  # rows with which an atom becomes known
N_LASTED = 12  # removed atoms that had lasted
FAILED = 12  # and those that had failed with n rows, at FAILED + n for 0 < n < 32
RUNS_LAST = 44  # whether rows of the same atom mostly follow each other
STATE = 45  # id of the settled state, -1 before the first row
LIKELY = 46  # id of the most probable one at the last row that is no outlier
STAYING = 47  # id of the state of the last row, -1 before the first
SINCE = 48  # its first arrival
N_FOUNDED = 49  # mixed states so far
N_RETURNED = 50  # and how often one of them has come back
N_MIXED = 51  # rows whose most probable state was mixed
N_LEFT = 52  # and how often the next one's was another
AT = 53  # place of the mixed state that was the most probable one, -1: none
ASKED = 54  # id that the last row asked `state` to change to, as the first one; -1: none
N_ASKED = 55  # such rows so far
N_HELD = 56  # and how often the next one was of that id, too
N_COUNTS = 57

# sums (float64)
FROZEN_BOUND = 0  # link terms of evicted rows, log marginals of retired tables
DEAD_BIRTHS = 1  # expected openings of retired atoms
DEAD_LOG_MASS = 2  # decay mass of dropped groups, at time DEAD_TIME
DEAD_TIME = 3
LAST_TIME = 4
NEW_LOG_BETA = 5  # gain of giving an opening to an atom not used before
NEW_BETA = 6  # expected stick weight of all atoms without a column
LOG_ALPHA = 7  # for the next arrival
FROZEN_OPENINGS = 8  # expected openings by evicted customers
FROZEN_RATE = 9  # sum of 1 / S over them; both fade
REDRAWN = 10  # rows that drew their table again, by the filter, of those it followed; both fade
FOLLOWED = 11
WANDER_LEAD = 12  # nats by which visits are more probable where levels wander
RETURN_LEAD = 13  # nats by which visits and births are more probable where atoms come back
SPEED = 14  # of the time by which links decay, LAG + SPEED t
LAG = 15
DEPENDENCE = 16  # nats by which columns depend on each other in mixed states; fades
N_SUMS = 17
