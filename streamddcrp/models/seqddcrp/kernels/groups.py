"""Compiled groups of evicted customers: search and union."""

import math

from streamddcrp.compilation import uncounted
from streamddcrp.lanes import LANES, between, lanes, larger, load_column, sum_of
from streamddcrp.models.seqddcrp.kernels.layout import N_GROUPS, N_ROWS, N_TABLES
from streamddcrp.models.seqddcrp.kernels.vectors import NEVER
from streamddcrp.models.seqddcrp.kernels.window import remove_group
from streamddcrp.numerics import exp_lanes, log_add_exp, log_decay, log_lanes


@uncounted
def ties_gain(rows, counts, g, h):
    """Gain of the rows' link terms if groups ``g`` and ``h`` become one tie; never negative."""
    gain, w = 0.0, counts[N_ROWS]
    for i in range(0, w, LANES):
        a, b = load_column(rows.group_links, i, g), load_column(rows.group_links, i, h)
        # a log weight of -inf, where the share is zero, would make it NaN
        log_p = larger(load_column(rows.group_log_weight, i, g), lanes(NEVER))
        log_q = larger(load_column(rows.group_log_weight, i, h), lanes(NEVER))
        top, less = larger(log_p, log_q), log_p - log_q
        whole = top + log_lanes(1.0 + exp_lanes(larger(less, -1.0 * less) * -1.0))
        apart = a * (log_p - log_lanes(a)) + b * (log_q - log_lanes(b))
        gain += sum_of(between((a + b) * (whole - log_lanes(a + b)) - apart, 0, w - i))
    return gain


@uncounted
def group_of(config, groups, counts, m):
    if config.tied:
        for g in range(counts[N_GROUPS]):
            if groups.atom[g] == m:
                return g
    return -1


@uncounted
def unite_groups(config, rows, groups, counts, g, h):
    """Merge group ``h`` into group ``g``: one tie, decay masses and mean rows added."""
    code, location, scale = config.decay_code, config.decay_location, config.decay_scale
    last = max(groups.t[g], groups.t[h])
    mass_g = groups.log_mass[g] + log_decay(code, location, scale, last - groups.t[g])
    mass_h = groups.log_mass[h] + log_decay(code, location, scale, last - groups.t[h])
    mass = log_add_exp(mass_g, mass_h)
    for m in range(counts[N_TABLES]):
        groups.probs[g, m] = (
            math.exp(mass_g - mass) * groups.probs[g, m]
            + math.exp(mass_h - mass) * groups.probs[h, m]
        )
        groups.shadow[g, m] = (
            math.exp(mass_g - mass) * groups.shadow[g, m]
            + math.exp(mass_h - mass) * groups.shadow[h, m]
        )
    groups.log_mass[g] = mass
    groups.t[g] = last
    groups.arrival[g] = max(groups.arrival[g], groups.arrival[h])
    for i in range(counts[N_ROWS]):
        rows.group_links[i, g] += rows.group_links[i, h]
        rows.group_log_weight[i, g] = log_add_exp(
            rows.group_log_weight[i, g], rows.group_log_weight[i, h]
        )
        rows.group_links[i, h] = 0.0
    remove_group(rows, groups, counts, h)
