"""Slow twin of the streaming engine's bookkeeping: every link of every customer, (N, N), dense.

The engine is driven one arrival at a time. Before a row is frozen its links are written down by the
arrival indices of the customers they reach (ties unfolded by the decay over the members of the
group at that moment) and its openings by atom id; nothing else is taken over. From these the bound
is recomputed: Z by forward recursion over all customers, statistics from all observations, every
term of the bound from its definition.
"""

import numpy as np
from scipy.special import gammaln

from streamddcrp.inference.seqddcrp_vb._kernels_layout import (
    MERGE,
    N_EVENTS,
    N_GROUPS,
    N_ROWS,
    N_TABLES,
    SINCE_BLOCK,
    SWEEP_UP,
)
from streamddcrp.inference.seqddcrp_vb.step import step


class DenseStream:
    def __init__(self, config, state, decay, likelihood):
        self.config, self.state, self.decay, self.likelihood = config, state, decay, likelihood
        self.X, self.t = [], []
        self.links, self.births = [], []  # of frozen rows: {index: q}, {atom id: q}
        self.members = {}  # group key -> arrival indices
        self.retired = []  # atom ids in order of retirement
        self.merged = {}  # atom id -> the id it merged into
        self.n_events = 0

    # -- following the engine ------------------------------------------------------------------

    def learn(self, x, t, given=None):
        cfg, state = self.config, self.state
        w = int(state.counts[N_ROWS])
        since = int(state.counts[SINCE_BLOCK]) + 1
        excess = max(0, w + 1 - cfg.window) if since == cfg.sweep_every else 0
        before = set(self._ids())
        self._freeze(excess)
        self.X.append(np.array(x, float))
        self.t.append(float(t))
        given = np.empty((1, 0)) if given is None else given
        self.state, out = step(cfg, state, self.X[-1][None], np.array([self.t[-1]]), given)
        self._follow_merges()
        gone = [i for i in before if i not in set(self._ids()) and i not in self.merged]
        assert len(gone) <= 1 or not cfg.recall, "order of retirement is ambiguous"
        self.retired += gone
        alive = set(self._keys())
        self.members = {k: v for k, v in self.members.items() if k in alive}
        return out[0]

    def _follow_merges(self):
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
        self.n_events = made

    @property
    def merged_twice(self):
        """Whether overlaps were added up, so that the streamed bound may be below the dense one."""
        parts = [i for pair in self.merged.items() for i in pair]
        return len(parts) != len(set(parts))

    def _ids(self):
        return self.state.table.ids[: self.state.counts[N_TABLES]].tolist()

    def _keys(self):
        groups = self.state.groups
        n = int(self.state.counts[N_GROUPS])
        if self.config.tied:
            return [int(self.state.table.ids[groups.atom[g]]) for g in range(n)]
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

    def _freeze(self, excess):
        rows, groups = self.state.rows, self.state.groups
        K = int(self.state.counts[N_TABLES])
        first = len(self.X) - int(self.state.counts[N_ROWS])
        ids, keys = self._ids(), self._keys()
        means = {k: groups.probs[g, :K].copy() for g, k in enumerate(keys)}
        mass = {k: groups.log_mass[g] for g, k in enumerate(keys)}
        time = {k: groups.t[g] for g, k in enumerate(keys)}
        joined = []
        for r in range(excess):
            i = first + r
            weights = {k: rows.group_links[r, g] for g, k in enumerate(keys)}
            for j in range(r):
                weights[joined[j]] = weights.get(joined[j], 0.0) + rows.links[r, j]
            z = rows.births[r, :K].copy()
            for key, q in weights.items():
                z += q * means[key]
            self.links.append(self._unfold(i, weights))
            self.births.append(
                {ids[m]: rows.births[r, m] for m in range(K) if rows.births[r, m] > 0}
            )
            key = ids[int(z.argmax())] if self.config.tied else i
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
            births.append({ids[m]: rows.births[r, m] for m in range(K) if rows.births[r, m] > 0})
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
        alpha, gamma = np.exp(self.config.log_alpha), self.config.gamma
        total = 0.0
        for i in range(len(A)):
            f = self.decay.weight(t[i] - t[:i]) if i else np.zeros(0)
            S = alpha + f.sum()
            q = A[i, :i]
            used = q > 0
            total += (q[used] * (np.log(f[used] / S) - np.log(q[used]))).sum()
            total += sum(s * (np.log(alpha / S) - np.log(s)) for s in births[i].values())
        stats = Z.T @ self.likelihood.suffstats(np.array(self.X))
        total += self.likelihood.log_marginal(stats).sum()
        if self.config.recall:
            c = np.array([sum(b.get(k, 0.0) for b in births) for k in order])
            tail = np.concatenate([np.cumsum(c[::-1])[::-1][1:], [0.0]])
            total += (
                gammaln(1 + c) + gammaln(gamma + tail) - gammaln(1 + gamma + c + tail)
                + gammaln(1 + gamma) - gammaln(gamma)
            ).sum()  # fmt: skip
        return total

    def assert_bound(self, value, rel=1e-10, abs=1e-9):
        """The streamed bound is the dense one; below it where overlaps have been added up."""
        dense = self.bound()
        room = rel * np.abs(dense) + abs
        assert value <= dense + room, (value, dense)
        assert value >= dense - room - (1.0 if self.merged_twice else 0.0), (value, dense)
