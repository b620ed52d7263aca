"""Change points of labels."""

import numpy as np

from streamddcrp.compilation import kernel


@kernel
def mark_changes(codes, n_codes, hold, share, out_change):
    """Mark the rows at which a regime begins that has next to no label in common with the last.

    Parameters
    ----------
    codes : ndarray of int64, shape (N,)
        Labels as numbers below ``n_codes``.
    """
    out_change[:] = False
    counts = np.zeros(n_codes, dtype=np.int64)  # of the regime's rows, the last ``hold`` aside
    first = hold
    for i in range(hold, len(codes)):
        known = i - hold + 1 - first
        if known > 0:
            counts[codes[i - hold]] += 1
        if known < hold:
            continue
        familiar = False
        for j in range(i - hold + 1, i + 1):
            familiar = familiar or (counts[codes[j]] > 0 and counts[codes[j]] >= share * known)
        if not familiar:
            first = i - hold + 1
            out_change[first] = True
            counts[:] = 0
