"""A row of the window, once more, with other values."""

from streamddcrp.compilation import entry
from streamddcrp.likelihoods.kernels import families
from streamddcrp.models.seqddcrp.kernels.layout import N_ACTIVE, N_TABLES
from streamddcrp.models.seqddcrp.kernels.state import refresh_terms, settle
from streamddcrp.models.seqddcrp.kernels.sweep import sweep
from streamddcrp.numerics import copy_row


@entry
def amend(config, rows, groups, atoms, table, counts, sums, scratch, i, x):
    """Give row ``i`` of the window the values ``x`` and sweep the window: docs/math/links.md (3).

    Missing values are imputed, and its surprise is corrected, by the tables without the row.
    """
    family, hyper, n_active = config.family, config.hyper, counts[N_ACTIVE]
    for at in range(n_active):
        m = atoms.active[at]
        families.add_stats(family, hyper, rows.x[i], -rows.probs[m, i], table.stats[m])
        families.posterior(family, hyper, table.stats[m], table.post[m])
        scratch.stale[m] = 1.0
    families.fill(family, hyper, table.post, x, counts[N_TABLES])
    gain = 0.0  # mean log density of the old values beside the new ones
    for at in range(n_active):
        m = atoms.active[at]
        before = families.log_predictive(family, hyper, table.post[m], rows.x[i])
        after = families.log_predictive(family, hyper, table.post[m], x)
        gain += rows.probs[m, i] * (before - after)
    rows.surprise[i] += gain
    copy_row(rows.x[i], x)
    for d in range(len(x)):
        scratch.columns[d, i] = x[d]
    settle(config, rows, groups, atoms, table, counts, sums, scratch, 0)
    sweep(config, rows, groups, atoms, table, counts, scratch, 0)
    settle(config, rows, groups, atoms, table, counts, sums, scratch, 0)
    refresh_terms(rows, counts)
    scratch.asked[0] = -1.0  # voids what `predict` left for the next row
