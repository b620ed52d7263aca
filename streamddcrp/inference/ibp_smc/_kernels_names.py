"""Public ids of features: what particles of half the weight have is told of under one id."""

from streamddcrp._numerics import inner_njit
from streamddcrp.inference.ibp_smc._kernels_layout import (
    BIRTH,
    DEATH,
    LIVE,
    N_ACTIVE,
    N_EVENTS,
    N_NAMED,
    N_SEEN,
)

__all__ = ["name_features"]


@inner_njit
def name_features(config, particles, names, counts):
    """Weigh the tags that particles have; give ids to those that have become live, note deaths."""
    names.weight[:] = 0.0
    names.best[:] = 0.0
    for i in range(counts[N_ACTIVE]):
        w = particles.weight[i]
        for k in range(1, particles.n_owners.shape[1]):
            if particles.n_owners[i, k] > 0:
                g = _find(names, particles.tag[i, k])
                if g >= 0:
                    names.weight[g] += w
                    if w > names.best[g]:
                        names.best[g] = w
                        names.holder[g] = i
                        names.slot[g] = k
    t = counts[N_SEEN] - 1
    for g in range(len(names.tag)):
        if names.tag[g] < 0:
            continue
        if names.weight[g] == 0.0:
            if names.label[g] >= 0:
                _note(names, counts, DEATH, g, t)
            names.tag[g] = -1
            names.label[g] = -1
        elif names.label[g] < 0 and names.weight[g] >= LIVE:
            names.label[g] = counts[N_NAMED]
            counts[N_NAMED] += 1
            _note(names, counts, BIRTH, g, t)
        if names.label[g] >= 0:
            i, k = names.holder[g], names.slot[g]
            names.loading[g] = particles.mean[i, k]
            names.born[g] = particles.first[i, k]


@inner_njit
def _find(names, tag):
    """Return the place of a tag, a new one if it has none; -1 where there is no room."""
    free = -1
    for g in range(len(names.tag)):
        if names.tag[g] == tag:
            return g
        if free < 0 and names.tag[g] < 0:
            free = g
    if free >= 0:
        names.tag[free] = tag
        names.label[free] = -1
    return free


@inner_njit
def _note(names, counts, kind, g, t):
    """Write down that a feature was born or died, with what it looked like."""
    e = counts[N_EVENTS] % len(names.event_kind)
    names.event_kind[e] = kind
    names.event_label[e] = names.label[g]
    names.event_index[e] = t
    names.event_born[e] = names.born[g]
    names.event_loading[e] = names.loading[g]
    counts[N_EVENTS] += 1
