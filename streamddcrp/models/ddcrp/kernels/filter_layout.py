"""Names of further entries of the scalar arrays of the state, shared by kernels and Python."""

from streamddcrp.particles.kernels.layout import LOG_EVIDENCE

# sums (float64)
CARRIED_AT = (
    LOG_EVIDENCE + 1
)  # time of the last customer that left, at which `Tables.carried` holds
N_SUMS = LOG_EVIDENCE + 2

UNLINKED = -1  # link to a customer that has left the ring
