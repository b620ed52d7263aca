"""One arrival, compiled: predict, link, seat; every few arrivals evict, sweep, retire."""

import math

import numpy as np

from streamddcrp.compilation import entry, uncounted
from streamddcrp.contract import LABEL, LABEL_PROB, LIVE, LIVE_TABLES, P_CHANGE, P_NEW, PIECE, SCORE
from streamddcrp.likelihoods.kernels import families
from streamddcrp.likelihoods.kernels.parts import explain
from streamddcrp.likelihoods.kernels.prior import learn_prior
from streamddcrp.models.seqddcrp.kernels import layout, state, vectors
from streamddcrp.models.seqddcrp.kernels.divide import divide
from streamddcrp.models.seqddcrp.kernels.halves import come_in_no_order
from streamddcrp.models.seqddcrp.kernels.known import is_known, judge, report, see
from streamddcrp.models.seqddcrp.kernels.moves import MOVES_EVERY, look_back, merge
from streamddcrp.models.seqddcrp.kernels.pace import forget
from streamddcrp.models.seqddcrp.kernels.reasons import NOTES, note
from streamddcrp.models.seqddcrp.kernels.run import change_of_run
from streamddcrp.models.seqddcrp.kernels.split import split
from streamddcrp.models.seqddcrp.kernels.states import compare_columns, follow, found, note_return
from streamddcrp.models.seqddcrp.kernels.sweep import sweep
from streamddcrp.models.seqddcrp.kernels.visits import fade, greet, miss, note_birth
from streamddcrp.models.seqddcrp.kernels.window import drop_groups, evict, retire, shift_rows
from streamddcrp.numerics import copy_row, padded, sum_first

ALPHA_MEMORY = 500.0  # rows over which evidence on alpha fades
ALPHA_STEPS = 4.0  # fixed-point steps per update: if all rows open tables, each step is small
LARGEST_STEP = 0.2
OPENINGS_PER_ROW = 4.0  # openings remembered by all tables, per row remembered by one
PRIOR_EVERY = 4  # blocks between steps of the base measure
NUMBER, TIME, LOG_TOTAL = 0, 1, 2  # entries of `scratch.asked`
NONE = 1e-300  # share of the best option that counts as zero
FAR = math.exp(-40.0)  # density, relative to the best table's, below which a table is left out
STALE = 1e-4  # posteriors of tables less probable than this wait for the block's refresh


@entry
def predict(config, rows, groups, atoms, table, counts, sums, scratch, x, t, given, b, out):
    """Predict a row at time ``t``; learning reuses the work if it is next."""
    asked = scratch.asked
    asked[LOG_TOTAL] = _weigh(
        config, rows, groups, atoms, table, counts, sums, scratch, x, t, given, b, out
    )
    asked[NUMBER], asked[TIME] = counts[layout.N_SEEN], t
    copy_row(scratch.asked_x, x)
    copy_row(scratch.answer, out)


@uncounted
def _was_asked(counts, scratch, x, t):
    """Whether the last call was `predict` for this row; False with missing values."""
    same = scratch.asked[NUMBER] == counts[layout.N_SEEN] and scratch.asked[TIME] == t
    for d in range(len(x)):
        same = same and scratch.asked_x[d] == x[d]
    return same


@uncounted
def weigh_tables(config, rows, groups, atoms, counts, sums, scratch, t, given, b):
    """Write the prior pi of tables (the link prior pushed through Z) to ``scratch.weight``.

    Returns log S; also computes the posterior of no data if unknown.
    """
    w, n_groups, K = counts[layout.N_ROWS], counts[layout.N_GROUPS], counts[layout.N_TABLES]
    log_total, shift = state.link_log_weights(
        config, rows, groups, counts, sums, t, given, b, scratch.share, scratch.local, scratch.group
    )
    weight = scratch.weight
    opening = math.exp(sums[layout.LOG_ALPHA] - log_total)
    for m in range(K):
        weight[m] = opening * atoms.beta[m]
    scale = math.exp(shift - log_total)
    for at in range(counts[layout.N_ACTIVE]):
        m = atoms.active[at]
        weight[m] += scale * vectors.dot_one(scratch.share, rows.probs[m], w)
    for g in range(n_groups):
        p = scale * scratch.share[padded(w) + g]
        if p > 0.0 and state.is_pure(groups, g):
            weight[groups.atom[g]] += p
        elif p > 0.0:
            for at in range(counts[layout.N_ACTIVE]):
                m = atoms.active[at]
                weight[m] += p * groups.probs[g, m]
    if math.isnan(scratch.prior_post[0]):
        _refresh_prior(config, scratch)
    return log_total


@entry
def explain_next(
    config, rows, groups, atoms, table, counts, sums, scratch, t, given, whole, lacking, out,
    view,
):  # fmt: skip
    """Explain a row at time ``t``, as `explain` does; return the present state's column."""
    K, weight, log_weight = counts[layout.N_TABLES], scratch.weight, scratch.own
    log_total = weigh_tables(config, rows, groups, atoms, counts, sums, scratch, t, given, 0)
    scratch.asked[NUMBER] = -1.0  # invalidates what `predict` left for the next row
    home, likely = -1, 0
    for m in range(K):
        log_weight[m] = math.log(weight[m]) if weight[m] > 0.0 else -np.inf
        if log_weight[m] > log_weight[likely]:
            likely = m
        if table.ids[m] == counts[layout.STATE]:
            home = m
    log_weight[K] = sums[layout.LOG_ALPHA] - log_total
    log_weight[K] += state.log_new_weight(config, atoms, counts, sums)
    home = home if home >= 0 else likely
    explain(
        config.family, config.hyper, whole, table.post, scratch.prior_post, K, log_weight, home,
        lacking, out, view,
    )  # fmt: skip
    return home


@uncounted
def _weigh(config, rows, groups, atoms, table, counts, sums, scratch, x, t, given, b, out):
    """Weigh the tables for a row; leave log link weights in ``scratch``; return log S.

    p(x) = sum_m pi_m p(x | m) + pi_new m(x), with pi the prior of the links pushed through Z.
    ``x``: full covariances impute missing values. ``out`` : label, its probability, -log p(x),
    probability of a new table, of a change, live tables, whether it is an outlier.
    """
    K, weight = counts[layout.N_TABLES], scratch.weight
    filled = families.fill(config.family, config.hyper, table.post, x, K)
    log_total = weigh_tables(config, rows, groups, atoms, counts, sums, scratch, t, given, b)
    scratch.log_new[0] = families.log_predictive(config.family, config.hyper, scratch.prior_post, x)
    log_new = state.log_new_weight(config, atoms, counts, sums)
    new = sums[layout.LOG_ALPHA] - log_total + log_new + scratch.log_new[0]
    families.log_predictives_in_lanes(config.family, config.hyper, table.post, x, K, scratch.own)
    near, nearest = -1, -np.inf  # the known table whose label an outlier gets
    top, score = new, scratch.share
    for m in range(K):
        score[m] = weight[m]
    vectors.take_logs(score, K)
    for m in range(K):
        prior = score[m] if weight[m] > 0.0 else -np.inf
        score[m] = prior + scratch.own[m]
        top = max(top, score[m])
        nearness = prior if counts[layout.RUNS_LAST] else score[m]
        if nearness > nearest and is_known(atoms, counts, m, 0):
            near, nearest = m, nearness
    p_new = math.exp(new - top)
    vectors.rest_of_options(score, scratch.message, K, padded(K))
    total, _ = vectors.exp_and_sum(score, scratch.message, 0, K, top, FAR)
    total += p_new
    best, column = p_new * sums[layout.NEW_BETA] * math.exp(-log_new), -1  # (6b)
    live = 0
    for m in range(K):
        if score[m] > best:
            best, column = score[m], m
        if table.stats[m, 0] >= LIVE and is_known(atoms, counts, m, 0):
            live += 1
    known = is_known(atoms, counts, column, 1) if column >= 0 else counts[layout.ENOUGH] == 1
    out[layout.OUTLIER] = not known and near >= 0
    if out[layout.OUTLIER] > 0.0:
        best, column = score[near], near
    out[LABEL] = table.ids[column] if column >= 0 else counts[layout.NEXT_ID]
    out[LABEL_PROB] = (best if column >= 0 else p_new) / total
    out[SCORE] = filled - (top + math.log(total))
    out[P_NEW] = p_new / total
    out[P_CHANGE] = np.nan
    out[LIVE_TABLES] = live
    out[layout.FILTERED] = out[layout.SETTLED] = out[LABEL]  # until the row is learned
    for m in range(K):
        weight[m] = score[m] / total
    return log_total


@uncounted
def _refresh_prior(config, scratch):
    """Compute the posterior of no data."""
    scratch.stats[:] = 0.0
    families.posterior(config.family, config.hyper, scratch.stats, scratch.prior_post)


@uncounted
def _seat(
    config, rows, groups, atoms, table, events, counts, sums, scratch, log_total, x, t, surprise
):
    """Set q(c) of the arrival by scores, open a table if needed, add its statistics."""
    w, n_groups, K = counts[layout.N_ROWS], counts[layout.N_GROUPS], counts[layout.N_TABLES]
    family, hyper = config.family, config.hyper
    lik, message, share = scratch.weight, scratch.message, scratch.share
    # the options: links to customers, to groups from `tied` on, births from `own` on, a new table
    tied = padded(w)
    own = tied + padded(n_groups)
    new = own + K
    end = padded(new + 1)
    rows.t[w] = state.decay_time(sums, t)
    copy_row(rows.x[w], x)
    for d in range(len(x)):
        scratch.columns[d, w] = x[d]
    rows.surprise[w] = surprise
    rows.log_birth[w] = sums[layout.LOG_ALPHA] - log_total
    rows.rate[w] = math.exp(-log_total)
    families.expected_log_liks(family, hyper, table.post, x, K, lik)
    vectors.weigh_columns(message, lik, rows.probs, atoms.active, counts[layout.N_ACTIVE], w)
    state.weigh_groups(message, tied, lik, groups, atoms, counts)
    for m in range(K):
        message[own + m] = atoms.log_beta[m] + lik[m]
    # An unlearned prior's E log p is very low; opening jointly with q(theta) gives log m(x).
    message[new] = sums[layout.NEW_LOG_BETA] + scratch.log_new[0]
    vectors.scaled_less(rows.log_weight[w], scratch.local, log_total, 1.0, w)
    top = vectors.add_scores(share, message, rows.log_weight[w], w)
    for g in range(n_groups):
        rows.group_log_weight[w, g] = scratch.group[g] - log_total
        share[tied + g] = rows.group_log_weight[w, g] + message[tied + g]
        top = max(top, share[tied + g])
    for m in range(K):
        share[own + m] = rows.log_birth[w] + message[own + m] if config.recall else -np.inf
        top = max(top, share[own + m])
    share[new] = rows.log_birth[w] + message[new]
    if config.max_tables <= K and top > -np.inf:
        counts[layout.N_FORBIDDEN] += share[new] > top
        share[new] = -np.inf
    top = max(top, share[new])
    vectors.rest_of_options(share, message, tied + n_groups, own)
    vectors.rest_of_options(share, message, new + 1, end)
    total, _ = vectors.exp_and_sum(share, message, 0, end, top, NONE)
    for m in range(K):
        if share[own + m] < state.CALL_BACK * total and state.is_away(config, table, counts, m):
            share[own + m] = 0.0
    opened, share[new] = share[new], 0.0
    best_old = vectors.largest(share, end)  # 0: all were set to zero, so it opens a table
    if opened < config.birth_threshold * total and best_old > 0.0:
        opened, message[new] = 0.0, 0.0
    share[new] = opened
    floor = state.LINK_FLOOR * (1.0 if opened > 0.0 else best_old)
    total, mean = vectors.floor_and_sums(share, message, end, floor)
    part = 1.0 / total
    # log q = score - log Z and score = log p + message, so the row's term is log Z - E message
    rows.term[w] = top + math.log(total) - part * mean
    vectors.scaled_less(rows.links[w], share, 0.0, part, w)
    for g in range(n_groups):
        rows.group_links[w, g] = part * share[tied + g]
    for m in range(K):
        rows.births[m, w] = part * share[own + m]
        if share[own + m] > 0.0:
            state.activate(atoms, counts, m)
    opened = part * share[new]
    if opened > 0.0:
        state.open_column(rows, groups, atoms, table, counts, counts[layout.N_SEEN])
        rows.births[K, w] = opened
        K += 1
    if abs(top) > state.LARGEST:
        rows.term[w] = state.row_term(rows, w, n_groups, K)
    state.mix_row(rows, groups, atoms, counts, w)
    best = atoms.active[0]
    opened_here = 0.0
    for at in range(counts[layout.N_ACTIVE]):
        m = atoms.active[at]
        z = rows.probs[m, w]
        opened_here += rows.births[m, w]
        atoms.births[m] += rows.births[m, w]
        if z > 0.0:
            families.add_stats(family, hyper, x, z, table.stats[m])
            if z > STALE or (opened > 0.0 and m == K - 1):
                families.posterior(family, hyper, table.stats[m], table.post[m])
            else:
                scratch.stale[m] = 1.0
        if z > rows.probs[best, w]:
            best = m
    if opened > 0.0:
        state.refresh_sticks(config, atoms, counts, sums)
    elif opened_here > STALE:
        state.refresh_weights(config, atoms, counts, sums)
    see(atoms, table, counts, best)
    note_birth(config, atoms, table, counts, sums, best, atoms.n_rows[best] - 1)
    report(atoms, table, events, counts, best, counts[layout.N_SEEN], t)
    greet(config, groups, atoms, table, events, counts, sums, scratch, best, counts[layout.N_SEEN])
    table.last_seen[best] = counts[layout.N_SEEN]
    counts[layout.N_ROWS] += 1
    counts[layout.N_SEEN] += 1
    counts[layout.SINCE_BLOCK] += 1
    sums[layout.LAST_TIME] = t


@uncounted
def _learn(config, rows, atoms, table, counts, sums, scratch):
    """Update alpha, docs/math/atoms.md (10), base measure and memories, for later arrivals."""
    if config.alpha_rate < np.inf:
        openings = 1.0 + sums[layout.FROZEN_OPENINGS]
        rate = config.alpha_rate + sums[layout.FROZEN_RATE]
        rate += sum_first(rows.rate, counts[layout.N_ROWS])
        for at in range(counts[layout.N_ACTIVE]):
            openings += sum_first(rows.births[atoms.active[at]], counts[layout.N_ROWS])
        step = ALPHA_STEPS * (math.log(openings / rate) - sums[layout.LOG_ALPHA])
        sums[layout.LOG_ALPHA] += min(max(step, -LARGEST_STEP), LARGEST_STEP)
        keep = max(1.0 - config.sweep_every / ALPHA_MEMORY, 0.0)
        sums[layout.FROZEN_OPENINGS] *= keep
        sums[layout.FROZEN_RATE] *= keep
    if config.learn_prior and counts[layout.N_BLOCKS] % PRIOR_EVERY == 0:
        K = counts[layout.N_TABLES]
        sizes = scratch.own
        for m in range(K):
            sizes[m] = table.stats[m, 0]
        if learn_prior(config.family, config.hyper, config.start, table.post, sizes, K):
            families.posteriors(config.family, config.hyper, table.stats, K, table.post)
            _refresh_prior(config, scratch)
    if config.far > 0.0:
        far = come_in_no_order(config, table, counts, sums, False)
        state.set_speed(sums, config.decay_scale / config.far if far else 1.0)
    counts[layout.N_BLOCKS] += 1


@uncounted
def _forget(config, atoms, table, counts, sums):
    """Limit the memory of evicted rows.

    A table's statistics fade in its own time, because `fade` handles absences. Openings fade
    together, which keeps their proportions.
    """
    if config.memory < np.inf:
        forget(config, atoms, table, counts, sums)
    total = sums[layout.DEAD_BIRTHS]
    for m in range(counts[layout.N_TABLES]):
        total += atoms.frozen_births[m]
    if total > OPENINGS_PER_ROW * config.memory:
        keep = OPENINGS_PER_ROW * config.memory / total
        sums[layout.DEAD_BIRTHS] *= keep
        for m in range(counts[layout.N_TABLES]):
            atoms.frozen_births[m] *= keep
            atoms.births[m] *= keep
            atoms.shadow_births[m] *= keep
            atoms.rest_births[m] *= keep
            atoms.side_sticks[m] *= keep


@uncounted
def _block(config, rows, groups, atoms, table, events, counts, sums, scratch):
    """Evict down to the window, sweep, try moves, drop groups, retire unreachable tables."""
    now = sums[layout.LAST_TIME]
    excess = max(0, counts[layout.N_ROWS] - config.window)
    evict(config, rows, groups, atoms, table, counts, sums, scratch, excess)
    fade(config, atoms, table, events, counts, sums, now)
    _forget(config, atoms, table, counts, sums)
    shift_rows(rows, atoms, scratch, counts, excess)
    state.settle(config, rows, groups, atoms, table, counts, sums, scratch, 0)
    # after leaving rows were updated
    state.refresh_active(rows, groups, atoms, counts)
    first = max(counts[layout.N_ROWS] - state.SWEPT, 0)
    for _ in range(config.n_sweeps):
        sweep(config, rows, groups, atoms, table, counts, scratch, first)
        state.settle(config, rows, groups, atoms, table, counts, sums, scratch, first)
    look_back(config, rows, groups, atoms, table, events, counts, sums, scratch)
    merged = False
    if counts[layout.N_BLOCKS] % MOVES_EVERY == 0:
        divide(config, rows, groups, atoms, table, events, counts, sums, scratch)
        split(config, rows, groups, atoms, table, events, counts, sums, scratch, now)
        merged = merge(config, rows, groups, atoms, table, events, counts, sums, scratch, now)
    if drop_groups(config, rows, groups, counts, sums, state.decay_time(sums, now)) or merged:
        state.refresh_terms(rows, counts)
        state.settle(config, rows, groups, atoms, table, counts, sums, scratch, 0)
    judge(atoms, table, counts)
    miss(config, rows, atoms, table, counts, sums, scratch)
    retire(config, rows, groups, atoms, table, events, counts, sums, now)
    _learn(config, rows, atoms, table, counts, sums, scratch)
    note(config, rows, atoms, table, events, counts, scratch)
    counts[layout.SINCE_BLOCK] = 0


@entry
def step_rows(
    config, rows, groups, atoms, table, events, counts, sums, scratch, X, t, given, start, out
):
    """Predict and learn rows ``start`` onward; stop early when a column needs room.

    It may also stop after some rows, to let events or notes be copied from their rings.

    Returns
    -------
    int : the first row not yet learned
    """
    made, noted = counts[layout.N_EVENTS], scratch.noted[NOTES]
    for b in range(start, X.shape[0]):
        if counts[layout.N_TABLES] + 4 > table.ids.shape[0]:  # one on arrival, three by moves
            return b
        if b - start >= PIECE and scratch.noted[NOTES] > noted:
            return b
        if counts[layout.N_EVENTS] - made > len(events.kind) // 2:  # the next block needs the rest
            return b
        if _was_asked(counts, scratch, X[b], t[b]):
            log_total = scratch.asked[LOG_TOTAL]
            copy_row(out[b], scratch.answer)
        else:
            log_total = _weigh(
                config, rows, groups, atoms, table, counts, sums, scratch, X[b], t[b], given, b,
                out[b],
            )  # fmt: skip
        follow(config, atoms, table, counts, sums, scratch, out[b])
        compare_columns(
            config, atoms, counts, sums, scratch, table, X[b], rows.x[counts[layout.N_ROWS]]
        )
        _seat(
            config, rows, groups, atoms, table, events, counts, sums, scratch, log_total, X[b],
            t[b], out[b, SCORE],
        )  # fmt: skip
        note_return(config, atoms, table, events, counts, t[b])
        found(config, atoms, table, events, counts, t[b])
        out[b, P_CHANGE] = change_of_run(rows, groups, atoms, table, counts)
        if counts[layout.SINCE_BLOCK] >= config.sweep_every:
            _block(config, rows, groups, atoms, table, events, counts, sums, scratch)
    return X.shape[0]
