"""States over tables: the period that rows belong to, robust to single odd rows.

The label of a row is the most probable table, given links that reach some rows back. An odd row, or
one between two similar tables, changes it, and the next one changes it back. Noise of a shape that
no single table has is many tables, row by row. The state is therefore that of a hidden Markov
model, filtered forward, with a *pure* state for each table and *mixed* states, each a distribution
over tables: ``docs/math/states_over_tables.md``, equations (1) to (8).

A state is shown once it has been most probable for two successive rows, by odds of 10 to the
previous state, at a row that is not likelier there. A row marked as an outlier is no evidence.
Without recall the filter gives the probability of the labels. If tables do not last and columns
depend on each other within a mixed state, rows are clusters in no order, and the state is the
label. O(K) a row and state; none of this affects the bound or what is learned.
"""

import math

from streamddcrp.compilation import uncounted
from streamddcrp.contract import BIRTH, LABEL, P_NEW, RETURN, record
from streamddcrp.likelihoods.kernels.families import log_predictives_in_lanes, unit_of
from streamddcrp.models.seqddcrp.kernels.known import LASTING, REPORTED, is_known
from streamddcrp.models.seqddcrp.kernels.layout import (
    ASKED,
    AT,
    DEPENDENCE,
    ENOUGH,
    FILTERED,
    FOLLOWED,
    LIKELY,
    N_ASKED,
    N_EVENTS,
    N_FOUNDED,
    N_HELD,
    N_LEFT,
    N_MIXED,
    N_RETURNED,
    N_ROWS,
    N_SEEN,
    N_TABLES,
    NEW_BETA,
    NEXT_ID,
    OUTLIER,
    REDRAWN,
    RUNS_LAST,
    SETTLED,
    STATE,
)
from streamddcrp.models.seqddcrp.kernels.state import lately
from streamddcrp.models.seqddcrp.kernels.table import close_gap, column_of
from streamddcrp.models.seqddcrp.kernels.vectors import exp_and_sum, log_mean

NOTHING = 1e-300  # relative to the largest density
LEAST_WEIGHT = 1e-6  # of a table in a new run
RUNNING = 2  # successive rows needed to show a state
TRUSTED = 2.0 / 3.0  # share of confirmed first rows of states above which one suffices
MEMORY = 500.0  # rows over which evidence on rho fades
LEAST_RATE = 1e-6
LARGEST_RATE = 0.125  # of the filter's redraws: a state that redraws more often is mixed
LONG = 3000.0  # assumed rows of a stay in a mixed state, before any has ended
STATES, MIXTURES = 16, 24  # places of mixed states, and end of the candidate runs' places
CONCENTRATIONS = (0.3, 3.0, 30.0)
LEAST_SHARE = 1e-4  # of a concentration, so that it can recover
TOUCHED = 1e-3  # probability above which a mixed state learns a row
CAP = 1000.0  # rows that a mixed state remembers
EVERY = 8  # rows between new runs, and between checks of them
WORTH = 20.0  # nats of better prediction for a run to become a state, or columns to depend
SURE = 10.0  # odds required to show a state
HOPELESS = -8.0  # nats at which a run is given up
PURE = 0.8  # share of one table above which a run is not mixed
RARE = 0.02  # share below which a table gives no name


@uncounted
def switch_rate(sums):
    """Return rho, the probability that a row draws its table again."""
    return min(max(sums[REDRAWN] / sums[FOLLOWED], LEAST_RATE), 1.0 - LEAST_RATE)


@uncounted
def regimes_last(config, counts, sums):
    """Whether regimes last at least two rows on average."""
    return RUNNING * switch_rate(sums) < 1.0 if config.recall else counts[RUNS_LAST] == 1


@uncounted
def leave_rate(counts):
    """Return the probability that a row leaves a mixed state, (4)."""
    return (1.0 + counts[N_LEFT]) / (LONG + counts[N_MIXED])


@uncounted
def trusts_mixed(counts, sums):
    """Whether mixed states are periods, not rows of clusters in no order: rule (8)."""
    return sums[DEPENDENCE] < WORTH or counts[N_RETURNED] >= max(counts[N_FOUNDED], 2)


@uncounted
def follow(config, atoms, table, counts, sums, scratch, out):
    """Write the state of the row just weighed by `predict` to ``out``, and remember it.

    The weight of a new table follows those of live ones, if one may be opened.
    """
    K = counts[N_TABLES]
    atoms.filtered[K] = atoms.joint[K] = 0.0  # not stored: an outlier may open a table there
    mixed = config.recall and trusts_mixed(counts, sums)
    if out[OUTLIER] == 0.0:
        if config.recall:
            _filter(atoms, counts, sums, scratch)
            _filter_jointly(atoms, counts, sums, scratch)
        else:
            for m in range(K):
                atoms.filtered[m] = scratch.weight[m]
            atoms.filtered[K] = out[P_NEW]
        best = _largest(atoms.joint if mixed else atoms.filtered, K)
        likely = table.ids[best] if best < K else counts[NEXT_ID]
        s = _best_mixed(atoms, K)
        if s >= 0:
            counts[N_RETURNED] += counts[N_SEEN] - atoms.mix_at[s] > LASTING
            counts[N_MIXED] += 1
            atoms.mix_at[s] = counts[N_SEEN]
            likely = atoms.mix_id[s] if mixed else likely
        else:
            atoms.alone[best] += 1
        counts[AT] = s
        if counts[ASKED] >= 0:
            counts[N_ASKED] += 1
            counts[N_HELD] += likely == counts[ASKED]
        asks = likely != counts[STATE] >= 0
        asks = asks and _is_shown(config, atoms, table, counts, scratch, likely, mixed)
        again = likely == counts[LIKELY]
        trusted = counts[N_HELD] + 1 >= TRUSTED * (counts[N_ASKED] + 4)
        counts[ASKED] = likely if asks and not again else -1
        if asks and (again or trusted):
            for s in range(STATES):
                counts[N_LEFT] += atoms.mix_at[s] >= 0 and atoms.mix_id[s] == counts[STATE]
            counts[STATE] = likely
        counts[LIKELY] = likely
    if counts[STATE] < 0 or not (mixed or regimes_last(config, counts, sums)):
        counts[STATE] = counts[LIKELY] = int(out[LABEL])
    out[FILTERED] = out[SETTLED] = counts[STATE]


@uncounted
def _is_shown(config, atoms, table, counts, scratch, likely, mixed):
    """Whether a state is clearly more probable than the one shown, and the row no less likely."""
    if not config.recall:
        return True
    weights = atoms.joint if mixed else atoms.filtered
    weight, density = _of_state(atoms, table, counts, scratch, likely, weights, mixed)
    before, shown = _of_state(atoms, table, counts, scratch, counts[STATE], weights, mixed)
    return weight >= SURE * before and density >= shown


@uncounted
def _of_state(atoms, table, counts, scratch, label, weights, mixed):
    """Return the weights of this id's state, pure and mixed, and the row's density there."""
    K, weight, density = counts[N_TABLES], 0.0, 0.0
    for m in range(K + 1):
        if label == (table.ids[m] if m < K else counts[NEXT_ID]):
            weight, density = weight + weights[m], max(density, scratch.own[m])
    for s in range(STATES):
        if mixed and atoms.mix_at[s] >= 0 and atoms.mix_id[s] == label:
            weight += atoms.mix_weight[s]
            density = max(density, scratch.mixed[s])
    return weight, density


@uncounted
def _largest(weights, K):
    best = 0
    for m in range(1, K + 1):
        if weights[m] > weights[best]:
            best = m
    return best


@uncounted
def _best_mixed(atoms, K):
    """Return the index of the mixed state that is most probable of all, or -1 for a pure one."""
    best, weight = -1, atoms.joint[_largest(atoms.joint, K)]
    for s in range(STATES):
        if atoms.mix_at[s] >= 0 and atoms.mix_weight[s] > weight:
            best, weight = s, atoms.mix_weight[s]
    return best


@uncounted
def _filter(atoms, counts, sums, scratch):
    """Advance the filter of pure states by one row, (1).

    ``scratch.own`` holds the row's log densities, then densities relative to the largest, a new
    table's last. A table that is unknown or not yet reported to users has no weight.
    """
    K, filtered, density = counts[N_TABLES], atoms.filtered, scratch.own
    rho = switch_rate(sums)
    is_new_known = counts[ENOUGH] == 1
    before, top = 0.0, scratch.log_new[0] if is_new_known else -math.inf
    for m in range(K):
        before += filtered[m]
        if atoms.reported[m] != REPORTED or not is_known(atoms, counts, m, 0):
            density[m] = -math.inf
        top = max(top, density[m])
    stays = (1.0 - rho) / before if before > 0.0 else 0.0
    redrawn, total = 0.0, 0.0
    exp_and_sum(density, density, 0, K, top, NOTHING)
    for m in range(K):
        again = rho * max(atoms.beta[m], LEAST_WEIGHT) * density[m]
        filtered[m] = stays * filtered[m] * density[m] + again
        redrawn += again
        total += filtered[m]
    density[K] = math.exp(scratch.log_new[0] - top) if is_new_known else 0.0
    if is_new_known:
        filtered[K] = rho * max(sums[NEW_BETA], LEAST_WEIGHT) * density[K]
        redrawn += filtered[K]
        total += filtered[K]
    if total > 0.0:
        keep = 1.0 - 1.0 / MEMORY
        sums[REDRAWN] = keep * sums[REDRAWN] + redrawn / total
        sums[FOLLOWED] = keep * sums[FOLLOWED] + 1.0


@uncounted
def _filter_jointly(atoms, counts, sums, scratch):
    """Advance the filter of pure and mixed states by one row, (2) to (4).

    Candidate runs learn the row and their predictive lead; ``scratch.own`` holds the densities.
    """
    K, joint, density = counts[N_TABLES], atoms.joint, scratch.own
    before, mixed, n_mixed, mean, n_known = 0.0, 0.0, 0, density[K], 1
    for m in range(K):
        before += joint[m]
        mean += density[m]
        n_known += atoms.reported[m] == REPORTED and is_known(atoms, counts, m, 0)
    for s in range(STATES):
        if atoms.mix_at[s] >= 0:
            mixed += atoms.mix_weight[s]
            n_mixed += 1
    mean /= n_known
    rho, leave, whole = min(switch_rate(sums), LARGEST_RATE), leave_rate(counts), before + mixed
    if whole <= 0.0:
        whole = 1.0
    share = mixed / whole
    drawn = (rho * (1.0 - share) + leave * share) / (1.0 + n_mixed / n_known)
    total = 0.0
    for m in range(K):
        again = drawn * max(atoms.beta[m], LEAST_WEIGHT)
        joint[m] = ((1.0 - rho) * joint[m] / whole + again) * density[m]
        total += joint[m]
    joint[K] = drawn * max(sums[NEW_BETA], LEAST_WEIGHT) * density[K]
    total += joint[K]
    for s in range(STATES):
        if atoms.mix_at[s] >= 0:
            p = scratch.mixed[s] = _predictive(atoms, s, density, mean, K)
            stays = (1.0 - leave) * atoms.mix_weight[s] / whole
            atoms.mix_weight[s] = (stays + drawn / n_known) * p
            total += atoms.mix_weight[s]
    if total <= 0.0:
        return
    for s in range(STATES):
        share = atoms.mix_weight[s] / total
        if atoms.mix_at[s] >= 0 and share > TOUCHED:
            _learn(atoms, s, density, mean, 1.0 / n_known, K, share)
            if atoms.mix_total[s] > CAP:
                _scale(atoms, s, CAP / atoms.mix_total[s])
    for r in range(STATES, MIXTURES):
        if atoms.mix_at[r] >= 0:
            p = _learn(atoms, r, density, mean, 1.0 / n_known, K, 1.0)
            atoms.mix_weight[r] += math.log(p / total)


@uncounted
def _predictive(atoms, m, density, mean, K):
    """Density of the row in mixture ``m``, (2); ``mean`` is that of the base measure."""
    seen = 0.0
    for k in range(K):
        seen += atoms.mix[m, k] * density[k]
    p = 0.0
    for g in range(len(CONCENTRATIONS)):
        a = CONCENTRATIONS[g]
        p += atoms.mix_conc[m, g] * (seen + a * mean) / (atoms.mix_total[m] + a)
    return p


@uncounted
def _learn(atoms, m, density, mean, base, K, share):
    """Let mixture ``m`` learn a share of the row, (3); return its previous density."""
    p, seen = _predictive(atoms, m, density, mean, K), 0.0
    for k in range(K):
        seen += atoms.mix[m, k] * density[k]
    by_count, by_base, total = 0.0, 0.0, 0.0
    for g in range(len(CONCENTRATIONS)):
        a, weight = CONCENTRATIONS[g], atoms.mix_conc[m, g]
        by_count += weight / (atoms.mix_total[m] + a)
        by_base += weight * a * base / (atoms.mix_total[m] + a)
        ratio = (seen + a * mean) / (atoms.mix_total[m] + a) / p
        atoms.mix_conc[m, g] *= ratio if share == 1.0 else ratio**share
        total += atoms.mix_conc[m, g]
    for g in range(len(CONCENTRATIONS)):
        atoms.mix_conc[m, g] = max(atoms.mix_conc[m, g] / total, LEAST_SHARE)
    for k in range(K):
        atoms.mix[m, k] += share * (by_count * atoms.mix[m, k] + by_base) * density[k] / p
    atoms.mix_total[m] += share
    return p


@uncounted
def _scale(atoms, m, factor):
    for k in range(atoms.mix.shape[1]):
        atoms.mix[m, k] *= factor
    atoms.mix_total[m] *= factor


@uncounted
def compare_columns(config, atoms, counts, sums, scratch, table, x, work):
    """Compare tables of the mixed state for dependence between columns, (7).

    If tables do not last and no state is mixed yet, all tables are compared. ``work`` (D,) is
    overwritten.
    """
    s, K, D = counts[AT], counts[N_TABLES], len(x)
    if D == 1 or not config.recall or (s < 0 and regimes_last(config, counts, sums)):
        return
    shares = atoms.mix[s] if s >= 0 else atoms.beta
    start, stop = unit_of(config.family, config.hyper, counts[N_SEEN] % D)
    own, rest = scratch.own, scratch.weight
    for d in range(D):
        work[d] = x[d] if start <= d < stop else math.nan
    log_predictives_in_lanes(config.family, config.hyper, table.post, work, K, own)
    if stop - start < D:
        for d in range(D):
            work[d] = x[d] if not start <= d < stop else math.nan
        log_predictives_in_lanes(config.family, config.hyper, table.post, work, K, rest)
        gain = -log_mean(shares, LEAST_WEIGHT, own, K) - log_mean(shares, LEAST_WEIGHT, rest, K)
        for m in range(K):
            own[m] += rest[m]
        gain += log_mean(shares, LEAST_WEIGHT, own, K)
        sums[DEPENDENCE] *= 1.0 - 1.0 / CAP
        sums[DEPENDENCE] += gain if math.isfinite(gain) else 0.0
    else:
        sums[DEPENDENCE] = 2.0 * WORTH  # assumed if indistinguishable


# -- runs that may become mixed states, (5) and (6) ---------------------------------------------


@uncounted
def found(config, atoms, table, events, counts, t):
    """Turn the best run into a mixed state if worthwhile; begin another. O((M + K) K)."""
    if not config.recall or counts[N_SEEN] % EVERY > 0:
        return
    now, best = counts[N_SEEN], -1
    for r in range(STATES, MIXTURES):
        if atoms.mix_at[r] >= 0 and now - atoms.mix_at[r] >= LASTING:
            worth = atoms.mix_weight[r]
            if worth > WORTH and (best < 0 or worth > atoms.mix_weight[best]):
                best = r
    if best >= 0:
        _found_state(atoms, table, events, counts, best, t)
        for r in range(STATES, MIXTURES):
            atoms.mix_at[r] = -1
    for r in range(STATES, MIXTURES):  # the best of each octave of age
        if atoms.mix_at[r] >= 0 and atoms.mix_weight[r] < HOPELESS:
            atoms.mix_at[r] = -1
        for q in range(STATES, r):
            if (
                atoms.mix_at[r] >= 0
                and atoms.mix_at[q] >= 0
                and _octave(now - atoms.mix_at[r]) == _octave(now - atoms.mix_at[q])
            ):
                worse = r if atoms.mix_weight[q] >= atoms.mix_weight[r] else q
                atoms.mix_at[worse] = -1
    place = STATES
    for r in range(STATES, MIXTURES):
        if atoms.mix_at[place] >= 0 and (
            atoms.mix_at[r] < 0 or atoms.mix_weight[r] < atoms.mix_weight[place]
        ):
            place = r
    _clear(atoms, place)
    atoms.mix_at[place] = now


@uncounted
def _octave(age):
    n, age = 0, age // EVERY
    while age > 0:
        n, age = n + 1, age // 2
    return n


@uncounted
def _clear(atoms, m):
    for k in range(atoms.mix.shape[1]):
        atoms.mix[m, k] = 0.0
    atoms.mix_total[m], atoms.mix_weight[m], atoms.mix_at[m] = 0.0, 0.0, -1
    for g in range(len(CONCENTRATIONS)):
        atoms.mix_conc[m, g] = 1.0 / len(CONCENTRATIONS)


@uncounted
def _free_place(atoms):
    """Return a place for a new mixed state: a free one, or that of the smallest state."""
    place = 0
    for s in range(1, STATES):
        if atoms.mix_at[place] >= 0 and (
            atoms.mix_at[s] < 0 or atoms.mix_total[s] < atoms.mix_total[place]
        ):
            place = s
    return place


@uncounted
def _found_state(atoms, table, events, counts, run, t):
    """Turn a run into a mixed state; the state that counted its rows returns them."""
    now, K = counts[N_SEEN], counts[N_TABLES]
    place, whole, old = _free_place(atoms), 0.0, _best_mixed(atoms, K - 1)
    if old >= 0:
        left, age = 0.0, (now - atoms.mix_at[run]) / CAP
        kept = (1.0 - math.exp(-age)) / age if 2.0 * atoms.mix_total[old] > CAP else 1.0
        for k in range(K):
            atoms.mix[old, k] = max(atoms.mix[old, k] - kept * atoms.mix[run, k], 0.0)
            left += atoms.mix[old, k]
        atoms.mix_total[old] = left
    for s in range(STATES):
        if atoms.mix_at[s] >= 0:
            whole += atoms.mix_weight[s]
    for m in range(K):
        whole += atoms.joint[m]
    _clear(atoms, place)
    same, gain = -1, 0.0
    for s in range(STATES):
        if atoms.mix_at[s] >= 0:
            more = _merge_gain(atoms, s, run, K)
            if more > gain:
                same, gain = s, more
    into = place if same < 0 else same
    for k in range(K):
        atoms.mix[into, k] += atoms.mix[run, k]
    atoms.mix_total[into] += atoms.mix_total[run]
    atoms.mix_at[into] = now
    rest = TOUCHED / whole if whole > 0.0 else 0.0  # 0: only a new table was probable
    for m in range(K):
        atoms.joint[m] *= rest
    for s in range(STATES):
        atoms.mix_weight[s] *= rest
    atoms.mix_weight[into] = 1.0
    counts[AT] = into
    if same < 0:
        for g in range(len(CONCENTRATIONS)):
            atoms.mix_conc[into, g] = atoms.mix_conc[run, g]
        counts[N_FOUNDED] += 1
        _name(atoms, table, events, counts, into, now - atoms.mix_at[run], t)


@uncounted
def _name(atoms, table, events, counts, s, age, t):
    """Name a mixed state after its largest table without its own state, or with a new id.

    If most of its rows are at one table, it is that table's state, including odd rows.
    """
    for k in range(counts[N_TABLES]):
        if atoms.mix[s, k] > PURE * atoms.mix_total[s]:
            atoms.mix_id[s] = table.ids[k]
            return
    least = RARE * atoms.mix_total[s]
    above = math.inf
    while True:
        k = -1
        for m in range(counts[N_TABLES]):
            here = least < atoms.mix[s, m] < above
            if here and (k < 0 or atoms.mix[s, m] > atoms.mix[s, k]):
                k = m
        if k < 0:
            break
        free = atoms.alone[k] <= 2 * age
        for other in range(STATES):
            if other != s and atoms.mix_at[other] >= 0 and atoms.mix_id[other] == table.ids[k]:
                free = False
        if free:
            atoms.mix_id[s] = table.ids[k]
            return
        above = atoms.mix[s, k]
    atoms.mix_id[s] = counts[NEXT_ID]
    counts[NEXT_ID] += 1
    record(events, counts, N_EVENTS, BIRTH, atoms.mix_id[s], -1, counts[N_SEEN] - age, t)


@uncounted
def _merge_gain(atoms, a, b, K):
    """Nats by which one Dirichlet-multinomial explains two mixtures' rows better, (6)."""
    apart = _log_marginal(atoms, a, a, K) + _log_marginal(atoms, b, b, K)
    return _log_marginal(atoms, a, b, K) - apart


@uncounted
def _log_marginal(atoms, a, b, K):
    """Log marginal of the counts of one or two mixtures, over concentrations."""
    total, top = 0.0, -math.inf
    for g in range(len(CONCENTRATIONS)):
        alpha, n, log_p = CONCENTRATIONS[g], 0.0, 0.0
        for k in range(K):
            count = atoms.mix[a, k] + (atoms.mix[b, k] if b != a else 0.0)
            if count > 0.0:
                log_p += math.lgamma(count + alpha / K) - math.lgamma(alpha / K)
                n += count
        log_p += math.lgamma(alpha) - math.lgamma(alpha + n)
        if log_p > top:
            total, top = total * math.exp(top - log_p) + 1.0, log_p
        else:
            total += math.exp(log_p - top)
    return top + math.log(total / len(CONCENTRATIONS))


# -- changes of tables ---------------------------------------------------------------------------


@uncounted
def join(atoms, m, l):
    """Transfer column ``l``, to be removed, to column ``m``."""
    for s in range(MIXTURES):
        atoms.mix[s, m] += atoms.mix[s, l]
    atoms.filtered[m] += atoms.filtered[l]
    atoms.joint[m] += atoms.joint[l]
    atoms.settled_at[m] = max(atoms.settled_at[m], atoms.settled_at[l])
    atoms.alone[m] += atoms.alone[l]


@uncounted
def part(atoms, table, counts, m, k, share):
    """Transfer a share of column ``m`` to column ``k``; a lasting state becomes mixed."""
    for s in range(MIXTURES):
        atoms.mix[s, k] = share * atoms.mix[s, m]
        atoms.mix[s, m] -= atoms.mix[s, k]
    atoms.settled_at[k] = atoms.settled_at[m]
    if atoms.alone[m] >= LASTING:
        s, n = _free_place(atoms), min(1.0 * atoms.alone[m], CAP)
        _clear(atoms, s)
        atoms.mix[s, m], atoms.mix[s, k], atoms.mix_total[s] = (1.0 - share) * n, share * n, n
        atoms.mix_weight[s] = atoms.joint[m] + atoms.joint[k]
        atoms.mix_at[s], atoms.mix_id[s] = counts[N_SEEN], table.ids[m]
        atoms.alone[m] = 0
        counts[N_FOUNDED] += 1


@uncounted
def rename(atoms, counts, old, new):
    """Replace id ``old`` by ``new`` from now on."""
    for at in (STATE, LIKELY, ASKED):
        if counts[at] == old:
            counts[at] = new
    for s in range(STATES):
        if atoms.mix_id[s] == old:
            atoms.mix_id[s] = new


@uncounted
def close_state(atoms, m, K):
    """Remove column ``m`` of ``K``."""
    close_gap(atoms.filtered, m, K)
    close_gap(atoms.joint, m, K)
    close_gap(atoms.settled_at, m, K)
    close_gap(atoms.alone, m, K)
    for s in range(MIXTURES):
        close_gap(atoms.mix[s], m, K)


@uncounted
def note_return(config, atoms, table, events, counts, t):
    """Report a return if the arrival brought the state back to an absent atom. O(K)."""
    arrival, m = counts[N_SEEN] - 1, column_of(table, counts, counts[STATE])
    if m < 0:
        return
    last = max(atoms.settled_at[m], table.born[m])
    if arrival - last > lately(config) and atoms.reported[m] == REPORTED:
        record(events, counts, N_EVENTS, RETURN, table.ids[m], -1, arrival, t)
    atoms.settled_at[m] = arrival


@uncounted
def start_filter(rows, atoms, counts):
    """Restart at the last row's q, after a move gave rows to another table."""
    K, last, pure = counts[N_TABLES], counts[N_ROWS] - 1, 0.0
    for m in range(K):
        pure += atoms.joint[m]
    for m in range(K):
        atoms.filtered[m] = max(rows.probs[m, last], 0.0)
        atoms.joint[m] = pure * atoms.filtered[m]
