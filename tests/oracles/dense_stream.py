"""Slow twin of the streaming engine's bookkeeping: every link of every customer, (N, N), dense.

The engine is driven one arrival at a time. Before a row is frozen its links are written down by the
arrival indices of the customers they reach (ties unfolded by the decay over the members of the
group at that moment) and its openings by atom id, with the half of the atom that the row was given
to and the probability that it opens that half; alpha and the time by which links decay are written
down as each row arrives. Where openings are forgotten, what the engine takes sticks to pay is taken
over, too. From these the bound is recomputed: Z by forward recursion over all customers, statistics
from all observations, what is forgotten from the rule, every term of the bound from its definition.
"""

from copy import deepcopy
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from streamddcrp.contract import FADE, FORGET, MERGE, RESTART, SPLIT, SWAP, SWEEP_UP
from streamddcrp.likelihoods import NormalGamma
from streamddcrp.models.seqddcrp.engine import run
from streamddcrp.models.seqddcrp.kernels.layout import (
    LAG,
    LOG_ALPHA,
    N_COLUMNS,
    N_EVENTS,
    N_GROUPS,
    N_ROWS,
    N_TABLES,
    SINCE_BLOCK,
    SPEED,
)
from streamddcrp.models.seqddcrp.kernels.visits import LEAST
from streamddcrp.models.seqddcrp.kernels.window import GOLDEN, PURE


class Half(NamedTuple):
    """A frozen row in a half of its atom: what it becomes if the atom is split."""

    shadow: bool
    links: dict[int, float]  # to members of that half
    opening: float
    paid: float  # by sticks, of what the link term gains


class DenseStream:
    def __init__(self, config, state, decay, likelihood):
        self.config, self.state, self.decay, self.likelihood = config, state, decay, likelihood
        self.X, self.t = [], []
        self.links, self.births = [], []  # of frozen rows: {index: q}, {atom id: q}
        self.members = {}  # group key -> arrival indices
        self.retired = []  # atom ids in order of retirement
        self.merged = {}  # atom id -> the id it merged into
        self.alpha = []
        self.atoms = []  # of frozen rows: the atom's id
        self.halves = []  # of frozen rows: {atom id: Half}, where its atom was divided
        self.faded = 0.0  # what splits gained in link terms and had been forgotten before
        self.kept = []  # of frozen rows, if there is forgetting: {atom id: what is remembered of Z}
        self.openings_kept = []  # of frozen rows
        self.fast = {}  # atom ids: whether it forgets faster
        self.begun = {}  # atom id -> frozen rows when its halves began
        self.n_splits = self.n_swaps = self.n_forgotten = 0
        self.n_events = 0

    # -- following the engine ------------------------------------------------------------------

    def learn(self, x, t, given=None):
        cfg, state = self.config, self.state
        w = int(state.counts[N_ROWS])
        since = int(state.counts[SINCE_BLOCK]) + 1
        excess = max(0, w + 1 - cfg.window) if since == cfg.sweep_every else 0
        ids = self._ids()
        before, old = set(ids), deepcopy(state) if excess else state
        self.alpha.append(float(np.exp(state.sums[LOG_ALPHA])))
        self.X.append(np.array(x, float))
        self.t.append(float(state.sums[LAG] + state.sums[SPEED] * t))
        given = np.empty((1, 0)) if given is None else given
        out = np.empty((1, N_COLUMNS))
        self.state = run(cfg, state, self.X[-1][None], np.array([float(t)]), given, out)
        frozen = self._freeze(excess, old, len(self.X) - 1)
        self._take_sides(ids, frozen)
        if since == cfg.sweep_every and np.isfinite(cfg.memory):
            self._forget()
        self._follow_moves()
        gone = [i for i in before if i not in set(self._ids()) and i not in self.merged]
        assert len(gone) <= 1 or not cfg.recall, "order of retirement is ambiguous"
        self.retired += gone
        alive = set(self._keys())
        self.members = {k: v for k, v in self.members.items() if k in alive}
        return out[0]

    def _forget(self):
        """Cap every table's evicted rows, those of visitors first; and all openings together."""
        self.kept += [dict(z) for z in self._frozen_tables()[len(self.kept) :]]
        memory, events = self.config.memory, self.state.events
        for number in range(self.n_events, int(self.state.counts[N_EVENTS])):
            at = number % len(events.kind)
            if events.kind[at] == FADE:
                i, wandered = int(events.label[at]), events.into[at] / memory**2
                self._keep(i, max(1.0 / (1.0 / self._remembered(i) + wandered), LEAST))
        ids, is_fast = self._ids(), self.state.atoms.is_fast
        self.fast |= {i: bool(is_fast[m]) for m, i in enumerate(ids)}  # merged ones as they were
        for i in {i for kept in self.kept for i in kept}:
            held = self.config.recent if self.fast.get(i, False) else memory
            if self._remembered(i) > held:
                self._keep(i, held)
        pairs = zip(self.births, self.openings_kept, strict=True)
        total = sum(kept * sum(births.values()) for births, kept in pairs)
        if total > 4 * self.config.memory:
            factor = 4 * self.config.memory / total
            self.openings_kept = [kept * factor for kept in self.openings_kept]

    def _remembered(self, i):
        return sum(kept.get(i, 0.0) for kept in self.kept)

    def _keep(self, i, n):
        """Remember ``n`` of the evicted rows of a table."""
        share = n / self._remembered(i)
        for kept in self.kept:
            if i in kept:
                kept[i] *= share

    def _frozen_tables(self):
        """Z rows of the frozen customers, by atom id."""
        Z = []
        for links, births in zip(self.links, self.births, strict=True):
            row = dict(births)
            for j, q in links.items():
                for i, z in Z[j].items():
                    row[i] = row.get(i, 0.0) + q * z
            Z.append(row)
        return Z

    def _follow_moves(self):
        events, made = self.state.events, int(self.state.counts[N_EVENTS])
        for number in range(self.n_events, made):
            at = number % len(events.kind)
            if events.kind[at] in (MERGE, SWEEP_UP):
                old, new = int(events.label[at]), int(events.into[at])
                self.merged[old] = new
                for births in self.births:
                    if old in births:
                        births[new] = births.get(new, 0.0) + births.pop(old)
                if self.config.tied and old in self.members:
                    self.members[new] = sorted(self.members.get(new, []) + self.members.pop(old))
                for kept in self.kept:
                    if old in kept:
                        kept[new] = kept.get(new, 0.0) + kept.pop(old)
            elif events.kind[at] == RESTART:
                self._restart(int(events.label[at]))
            elif events.kind[at] == FORGET:
                self._forget_undivided(int(events.label[at]))
            elif events.kind[at] == SPLIT:
                self._split(int(events.into[at]), int(events.label[at]))
            elif events.kind[at] == SWAP:
                self._swap({
                    int(events.into[at]): int(events.label[at]),
                    int(events.label[at]): int(events.into[at]),
                })  # fmt: skip
        self.n_events = made

    def _take_sides(self, ids, frozen):
        """Write down the halves of rows that were frozen, each with links to its own half only."""
        scratch = self.state.scratch
        for r, (i, atom, members) in enumerate(frozen):
            shadow = bool(scratch.sides[ids.index(atom), r])
            halves = np.array([self._in_shadow(j, atom) for j in members], bool)
            self.atoms.append(atom)
            self.halves.append({})
            if shadow or halves.any():
                s = scratch.opened[r]
                j = np.array(members, int)[halves == shadow]
                f = self.decay.weight(self.t[i] - np.array(self.t)[j])
                links = dict(zip(j.tolist(), (1.0 - s) * f / f.sum(), strict=True))
                self.halves[i][atom] = Half(shadow, links, s, scratch.paid[r])

    def _in_shadow(self, i, atom):
        return atom in self.halves[i] and self.halves[i][atom].shadow

    def _restart(self, atom):
        """Forget in which half of an atom rows are."""
        for halves in self.halves:
            halves.pop(atom, None)
        self.begun[atom] = len(self.atoms)

    def _forget_undivided(self, atom):
        """Forget the rows of an atom from before its halves began."""
        self.n_forgotten += 1
        for kept in self.kept[: self.begun.get(atom, 0)]:
            if atom in kept:
                kept[atom] = 0.0

    def _split(self, old, new):
        """Let the rows in the shadow of ``old`` be at ``new``, all linked to their own half."""
        self.n_splits += 1
        self.begun[old] = self.begun[new] = len(self.atoms)
        for i, halves in enumerate(self.halves):
            half = halves.pop(old, None)
            if half is None:
                continue
            before = self._link_term(i, self.links[i], self.births[i])
            self.links[i] = half.links
            self.births[i] = {new if half.shadow else old: half.opening}
            gain = self._link_term(i, self.links[i], self.births[i]) - before
            if self.kept:
                self.faded -= (1.0 - self.kept[i].get(old, 0.0)) * (gain + half.paid)
                self.faded += (1.0 - self.openings_kept[i]) * half.paid
                if half.shadow:
                    self.kept[i] = {new: self.kept[i].pop(old)}
        if self.config.tied and old in self.members:
            Z = self._frozen_tables()
            parts = {
                k: [i for i in self.members[old] if Z[i].get(k, 0.0) > 0.5] for k in (old, new)
            }
            del self.members[old]
            self.members.update({k: part for k, part in parts.items() if part})

    def _swap(self, other):
        """Let two atoms change ids."""
        self.n_swaps += 1
        for parts in (*self.births, *self.kept, *self.halves, self.members, self.begun):
            found = {other.get(i, i): part for i, part in parts.items()}
            parts.clear()
            parts.update(found)

    def _link_term(self, i, links, births):
        """Expected log prior and entropy of the links and openings of customer i."""
        t = np.array(self.t)
        f = self.decay.weight(t[i] - t[:i]) if i else np.zeros(0)
        S = self.alpha[i] + f.sum()
        total = sum(q * np.log(f[j] / S / q) for j, q in links.items() if q > 0)
        return total + sum(s * np.log(self.alpha[i] / S / s) for s in births.values() if s > 0)

    def _ids(self, state=None):
        state = state or self.state
        return state.table.ids[: state.counts[N_TABLES]].tolist()

    def _keys(self, state=None):
        state = state or self.state
        groups = state.groups
        n = int(state.counts[N_GROUPS])
        if self.config.tied:
            atoms = groups.atom[:n].tolist()
            return [int(state.table.ids[m]) for m in atoms]
        return groups.arrival[:n].tolist()

    def _unfold(self, i, weights):
        """Links of customer i to single customers, from links to groups by key."""
        row = {}
        for key, q in weights.items():
            if q > 0:
                j = np.array(self.members[key])
                f = self.decay.weight(self.t[i] - np.array(self.t)[j])
                for a, b in zip(j, q * f / f.sum(), strict=True):
                    row[int(a)] = row.get(int(a), 0.0) + b
        return row

    def _freeze(self, excess, state, seen):
        """Write down the rows that were frozen, as they were in ``state``, before."""
        rows, groups, homes = state.rows, state.groups, self.state.scratch.home
        K = int(state.counts[N_TABLES])
        first = seen - int(state.counts[N_ROWS])
        ids, keys = self._ids(state), self._keys(state)
        means = {k: groups.probs[g, :K].copy() for g, k in enumerate(keys)}
        mass = {k: groups.log_mass[g] for g, k in enumerate(keys)}
        time = {k: groups.t[g] for g, k in enumerate(keys)}
        joined, frozen = [], []
        for r in range(excess):
            i = first + r
            weights = {k: rows.group_links[r, g] for g, k in enumerate(keys)}
            for j in range(r):
                weights[joined[j]] = weights.get(joined[j], 0.0) + rows.links[r, j]
            z = rows.births[:K, r].copy()
            for key, q in weights.items():
                z += q * means[key]
            self.openings_kept.append(1.0)
            k = int(homes[r])  # the row keeps only what leads to one atom, its likeliest or drawn
            drawn = np.searchsorted(z.cumsum(), i * GOLDEN % 1.0, side="right")
            assert k in (z.argmax(), drawn)
            reached = {key: rows.group_log_weight[r, g] > -np.inf for g, key in enumerate(keys)}
            for j in range(r):
                near = rows.log_weight[r, j] > -np.inf
                reached[joined[j]] = reached.get(joined[j], False) or near
            reached = [key for key in reached if reached[key] and means[key][k] > PURE]
            frozen.append((i, ids[k], [j for key in reached for j in self.members[key]]))
            weights = {key: q for key, q in weights.items() if means[key][k] > PURE and q > 0}
            total = rows.births[k, r] + sum(weights.values())
            weights = {key: q / total for key, q in weights.items()}
            z = np.eye(K)[k]
            self.links.append(self._unfold(i, weights))
            opened = rows.births[k, r] / total if total > 0 else 1.0
            self.births.append({ids[k]: opened} if opened > 0 else {})
            key = ids[k] if self.config.tied else i
            if key in means:  # the mean of the group, weighted by decay mass
                faded = self.decay.weight(np.array([rows.t[r] - time[key]]))[0]
                now = np.exp(mass[key]) * faded
                means[key] = (now * means[key] + z) / (now + 1.0)
                mass[key] = np.log(now + 1.0)
            else:
                means[key], mass[key] = z, 0.0
            time[key] = rows.t[r]
            self.members.setdefault(key, []).append(i)
            joined.append(key)
        return frozen

    # -- the bound, from nothing but links, openings and observations --------------------------

    def dense(self):
        """Links (N, N) and openings by atom id of all customers, frozen and live."""
        rows = self.state.rows
        n, w, K = len(self.X), int(self.state.counts[N_ROWS]), int(self.state.counts[N_TABLES])
        first = n - w
        ids, keys = self._ids(), self._keys()
        A = np.zeros((n, n))
        births = [dict(b) for b in self.births]
        for i, row in enumerate(self.links):
            for j, q in row.items():
                A[i, j] = q
        for r in range(w):
            i = first + r
            A[i, first:i] = rows.links[r, :r]
            weights = {k: rows.group_links[r, g] for g, k in enumerate(keys)}
            for j, q in self._unfold(i, weights).items():
                A[i, j] += q
            births.append({ids[m]: rows.births[m, r] for m in range(K) if rows.births[m, r] > 0})
        return A, births

    def tables(self):
        """Table probabilities Z (N, atoms), column order: live columns, then the retired ones."""
        A, births = self.dense()
        order = self._ids() + self.retired[::-1]
        at = {k: m for m, k in enumerate(order)}
        Z = np.zeros((len(A), len(order)))
        for i in range(len(A)):
            Z[i] = A[i, :i] @ Z[:i]
            for k, q in births[i].items():
                Z[i, at[k]] += q
        return A, births, order, Z

    def bound(self):
        A, births, order, Z = self.tables()
        t = np.array(self.t)
        gamma = self.config.gamma
        total = self.faded
        for i in range(len(A)):
            f = self.decay.weight(t[i] - t[:i]) if i else np.zeros(0)
            alpha = self.alpha[i]
            S = alpha + f.sum()
            q = A[i, :i]
            used = q > 0
            total += (q[used] * (np.log(f[used] / S) - np.log(q[used]))).sum()
            total += sum(s * (np.log(alpha / S) - np.log(s)) for s in births[i].values())
        remembered, openings = Z.copy(), np.ones(len(A))
        for i, kept in enumerate(self.kept):
            remembered[i] = [kept.get(k, 0.0) for k in order]
        openings[: len(self.openings_kept)] = self.openings_kept
        stats = remembered.T @ self.likelihood.suffstats(np.array(self.X))
        total += self._log_marginal(stats).sum()
        if self.config.recall:
            c = np.array(
                [
                    sum(w * b.get(k, 0.0) for w, b in zip(openings, births, strict=True))
                    for k in order
                ]
            )
            tail = np.concatenate([np.cumsum(c[::-1])[::-1][1:], [0.0]])
            total += (
                gammaln(1 + c) + gammaln(gamma + tail) - gammaln(1 + gamma + c + tail)
                + gammaln(1 + gamma) - gammaln(gamma)
            ).sum()  # fmt: skip
        return total

    def _log_marginal(self, stats):
        """Log marginal likelihoods under the base measure of now."""
        D = int(self.config.hyper[0])
        if self.config.family != NormalGamma.family:
            return self.likelihood.log_marginal(stats)
        center, mean, kappa, shape, rate, _, _, share = self.config.hyper[1:].reshape(8, D)
        n = stats[:, 1 : 1 + D]
        s1, s2 = stats[:, 1 + D : 1 + 2 * D], stats[:, 1 + 2 * D :]
        m0 = mean - center
        kappa_n, shape_n = kappa + n, shape + n / 2
        mean_n = (kappa * m0 + s1) / kappa_n
        rate_n = rate + (s2 + kappa * m0**2 - kappa_n * mean_n**2) / 2
        return (
            gammaln(shape_n) - gammaln(shape) + shape * np.log(rate) - shape_n * np.log(rate_n)
            + np.log(kappa / kappa_n) / 2 - n / 2 * np.log(2 * np.pi)
        ) @ share  # fmt: skip

    def assert_bound(self, value, rel=1e-10, abs=1e-9):
        """The streamed bound is the dense one."""
        dense = self.bound()
        assert np.abs(value - dense) <= rel * np.abs(dense) + abs, (value, dense)
