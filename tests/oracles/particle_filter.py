"""The particle filter of the sequential ddCRP in plain Python: every customer is kept for ever."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np


@dataclass
class Particle:
    weight: float
    tables: list[list[int]] = field(default_factory=list)  # members, in the order of opening
    openings: list[int] = field(default_factory=list)  # of each table

    def copy(self) -> "Particle":
        tables = [list(k) for k in self.tables]
        return Particle(self.weight, tables, list(self.openings))

    def table_of(self, i: int) -> int:
        return next(k for k, members in enumerate(self.tables) if i in members)


def draw(uniform: float, weights: list[float]) -> int:
    rest = uniform * sum(weights)
    for k, w in enumerate(weights):
        rest -= w
        if rest < 0.0:
            return k
    return max(k for k, w in enumerate(weights) if w > 0.0)


class PlainFilter:
    """Bootstrap-free filter with locally optimal proposals and resampling.

    weight(i, j) : decay weight of a link of customer i to customer j < i.
    log_marginal(members) : log marginal likelihood of the customers at one table.
    gamma : an opener takes the parameter of a table by its openings, a new one by gamma.
    """

    def __init__(
        self,
        weight: Callable[[int, int], float],
        alpha: float,
        log_marginal: Callable[[tuple[int, ...]], float],
        n_particles: int,
        gamma: float = math.inf,
    ) -> None:
        self.gamma = gamma
        self.weight, self.alpha, self.log_marginal = weight, alpha, log_marginal
        self.particles = [Particle(1.0 / n_particles) for _ in range(n_particles)]
        self.log_evidence = 0.0
        self.n = 0

    def options(self, q: Particle, i: int, group: list[int]) -> tuple[float, list[float], float]:
        """Log scale and scaled weights of opening a table or joining one, and the row's norm."""
        alone = self.log_marginal(tuple(group))
        again = self.again(q)
        scores, masses = [alone], [self.alpha - sum(again)]
        for members, opens in zip(q.tables, again, strict=True):
            masses.append(opens + sum(self.weight(i, j) for j in members if j < i))
            joint = self.log_marginal(tuple(sorted(members + group)))
            scores.append(joint - self.log_marginal(tuple(members)))
        top = max(s for s, m in zip(scores, masses, strict=True) if m > 0.0)
        scaled = [
            m * math.exp(s - top) if m > 0.0 else 0.0 for s, m in zip(scores, masses, strict=True)
        ]
        return top, scaled, sum(masses)

    def again(self, q: Particle) -> list[float]:
        """Return the weight of opening each table with the parameter that it has."""
        total = self.gamma + sum(q.openings)
        return [self.alpha * opened / total for opened in q.openings]

    def seat(self, q: Particle, i: int, group: list[int], u_table: float, u_link: float) -> float:
        """Let ``group``, which hangs on i and is at no table, join one; return the gain."""
        top, scaled, norm = self.options(q, i, group)
        k = draw(u_table, scaled) - 1
        if k < 0:
            q.tables.append(sorted(group))
            q.openings.append(1)
        elif self.gamma < math.inf:
            opens = self.again(q)[k]
            share = opens / (opens + sum(self.weight(i, j) for j in q.tables[k]))
            q.openings[k] += u_link < share
            q.tables[k] = sorted(q.tables[k] + group)
        else:
            q.tables[k] = sorted(q.tables[k] + group)
        return top + math.log(sum(scaled) / norm)

    def step(self, uniforms: np.ndarray) -> dict[str, float]:
        """Learn the next customer; return what was predicted of it."""
        n, P = self.n, len(self.particles)
        linked = self.gamma < math.inf
        per_particle = 2 if linked else 1
        own = [uniforms[1 + p * per_particle : 1 + (p + 1) * per_particle] for p in range(P)]
        known: dict[int, float] = {}
        new, stays, total = 0.0, 0.0, 0.0
        gains = []
        for q in self.particles:
            top, scaled, norm = self.options(q, n, [n])
            gains.append(top + math.log(sum(scaled) / norm))
            share = q.weight * math.exp(gains[-1])
            total += share
            new += share * scaled[0] / sum(scaled)
            for members, w in zip(q.tables, scaled[1:], strict=True):
                known[members[0]] = known.get(members[0], 0.0) + share * w / sum(scaled)
                stays += share * w / sum(scaled) * (n - 1 in members)
        best = max([*known.values(), new])
        label = n if best == new else min(k for k, w in known.items() if w == best)
        outputs = {
            "label": label, "label_prob": best / total, "score": -math.log(total),
            "p_new": new / total, "p_change": 1.0 - stays / total if n else math.nan,
        }  # fmt: skip
        for q, gain, u in zip(self.particles, gains, own, strict=True):
            self.seat(q, n, [n], u[0], u[1] if linked else 0.0)
            q.weight *= math.exp(gain) / total
        self.log_evidence += math.log(total)
        self.n = n + 1
        if sum(q.weight**2 for q in self.particles) * P > 2.0:
            self.resample(uniforms[0])
        return outputs

    def resample(self, uniform: float) -> None:
        P = len(self.particles)
        edges = np.cumsum([q.weight for q in self.particles])
        offspring = [0] * P
        for point in (np.arange(P) + uniform) / P:
            offspring[min(int(np.searchsorted(edges, point, side="right")), P - 1)] += 1
        free = [p for p in range(P) if offspring[p] == 0]
        for p in range(P):
            for _ in range(offspring[p] - 1):
                self.particles[free.pop(0)] = self.particles[p].copy()
        for q in self.particles:
            q.weight = 1.0 / P
