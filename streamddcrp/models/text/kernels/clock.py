"""What time does to weights: those of documents fall, that of a new table follows the rate."""

from streamddcrp.compilation import uncounted
from streamddcrp.models.text.kernels.layout import ALPHA, GROWTH, N_LIVE, N_SEEN, TIME, TOTAL
from streamddcrp.models.text.kernels.scales import advance_scales, grown


@uncounted
def elapsed(config, window, counts, sums, t):
    """Return the time since the last document, in units of the decay, and alpha as it is then."""
    seen = counts[N_SEEN]
    if not config.clocked:
        return 1.0 / config.decay, sums[ALPHA]
    if seen == 0:
        return 0.0, sums[ALPHA]
    alpha, past = sums[ALPHA], min(seen, config.ages[-1])
    span = t - window.t[(seen - past) % len(window.t)]
    if config.share > 0.0 and span > 0.0:  # as many births whatever the rate of arrivals
        alpha = config.share * min(max(past * config.decay / span, 1.0), 1e5)
    return (t - sums[TIME]) / config.decay, alpha


@uncounted
def advance(config, tables, window, counts, sums, t):
    """Let the time be ``t``: what arrived before weighs less."""
    if tables.masses.shape[0] > 0:
        advance_scales(config, tables, window, counts, sums, t)
        return
    exponent, sums[ALPHA] = elapsed(config, window, counts, sums, t)
    sums[TIME] = t
    sums[GROWTH], factor = grown(sums[GROWTH], exponent)
    if factor == 1.0:
        return
    total = 0.0
    for i in range(counts[N_LIVE]):
        k = tables.live[i]
        tables.mass[k] *= factor
        total += tables.mass[k]
    for i in range(len(window.weight)):
        window.weight[i] *= factor
    sums[TOTAL] = total
