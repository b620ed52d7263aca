"""When a story is over: the probability that it goes on, after so long without a document.

Silences are cut at s_j = `FIRST` 2^(j / 2) documents. Of those that came to s_j, of stories whose
longest silence before was about as long, n_j saw the end of the step, at s_(j + 1), or a document
before, and r_j of these a document. The model expects a story of weight w to get about
w (1 - exp(-step / decay)) documents in the step, so that it gets one with probability h0_j, and
this counts as one more:

    h_j = (r_j + h0_j) / (n_j + 1),   P(goes on | s_j) = 1 - prod_{i >= j} (1 - h_i),

the product-limit estimate of Kaplan and Meier (1958) under a Beta prior: a silence that still lasts
is no end. A story is closed once that is below `BOUND`. If it goes on then, it returns.
"""

import math

from streamddcrp.compilation import leaf, uncounted
from streamddcrp.models.text.kernels import layout
from streamddcrp.models.text.kernels.events import BORN

FIRST = 16.0  # documents
BOUND = 0.25
SWEEP, AGAIN = 50, 500  # documents between two looks at all tables; at silences within a step, too


@leaf
def reach(config, sums):
    """Return the decay in documents, at the rate of the last ones."""
    if config.share > 0.0:
        return sums[layout.ALPHA] / config.share
    return float(config.ages[-1]) if config.clocked else config.decay  # a time: not known


@leaf
def step_of(j):
    """Return s_j."""
    return FIRST * 2.0 ** (0.5 * j)


@leaf
def place_of(tables, k, j):
    """Return where in the sums n_j is of stories with such silences before; r_j is behind it."""
    longest, group = tables.longest[k], 0
    while longest >= FIRST and group < layout.GROUPS - 1:
        longest, group = longest // 4, group + 1
    return layout.SILENCES + 2 * (group * layout.STEPS + j)


@leaf
def count_steps(tables, sums, k, silence):
    """Count the steps of a silence of table ``k`` that are over; return whether any was."""
    before = tables.quiet[k]
    while tables.quiet[k] < layout.STEPS and step_of(tables.quiet[k] + 1) <= silence:
        sums[place_of(tables, k, tables.quiet[k])] += 1.0
        tables.quiet[k] += 1
    return tables.quiet[k] > before


@leaf
def goes_on(tables, sums, k, weight, decay):
    """Return the probability that table ``k`` gets another document."""
    none = 1.0
    for j in range(tables.quiet[k], layout.STEPS):
        fading = math.exp(-(step_of(j + 1) - step_of(j)) / decay)
        expected = weight * (1.0 - fading)
        weight *= fading
        at = place_of(tables, k, j)
        none *= 1.0 - (sums[at + 1] + 1.0 - math.exp(-expected)) / (sums[at] + 1.0)
    return 1.0 - none


@leaf
def breaks_silence(tables, sums, k, i):
    """Let document ``i`` end the silence of table ``k``; return whether the table was closed."""
    silence, closed = i - tables.last_seen[k], tables.closed[k]
    if silence <= 0:
        return False
    if tables.reported[k] >= BORN and silence >= FIRST:
        count_steps(tables, sums, k, silence)
        if tables.quiet[k] < layout.STEPS:
            at = place_of(tables, k, tables.quiet[k])
            sums[at] += 1.0
            sums[at + 1] += 1.0
    tables.quiet[k], tables.closed[k] = 0, False
    tables.longest[k] = max(tables.longest[k], silence)
    return closed


@uncounted
def is_over(config, tables, counts, sums, k):
    """Return whether table ``k`` is to be closed now; looks where a step of its silence is over."""
    silence = counts[layout.NEWEST] - tables.last_seen[k]
    if tables.reported[k] < BORN or tables.closed[k] or silence < FIRST:
        return False
    if not count_steps(tables, sums, k, silence) and (counts[layout.NEWEST] + 1) % AGAIN:
        return False
    weight = tables.mass[k] / sums[layout.GROWTH]
    if goes_on(tables, sums, k, weight, reach(config, sums)) >= BOUND:
        return False
    tables.closed[k] = True
    return True
