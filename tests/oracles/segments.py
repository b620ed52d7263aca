"""Labels cut into regimes, the slow way: every segmentation of the runs is scored."""

from itertools import combinations, pairwise
from math import lgamma

CHANGE = 5.0  # nats
CONCENTRATION = 2.0


def log_evidence(labels, changes):
    """Log evidence of labels with regimes that begin at ``changes``; an empty one adds nothing."""
    share = CONCENTRATION / max(len(set(labels)), 1)
    total = -CHANGE * len(changes)
    for a, b in pairwise([0, *changes, len(labels)]):
        part = labels[a:b]
        total += lgamma(CONCENTRATION) - lgamma(len(part) / 2 + CONCENTRATION)
        total += sum(lgamma(part.count(k) / 2 + share) - lgamma(share) for k in set(part))
    return total


def most_probable(labels, hold):
    """Return the highest log evidence of regimes that begin with runs and last ``hold`` rows."""
    begins = [i for i in range(1, len(labels)) if labels[i] != labels[i - 1]]
    best = log_evidence(labels, [])
    for n in range(1, len(begins) + 1):
        for changes in combinations(begins, n):
            if all(b - a >= hold for a, b in pairwise([0, *changes, len(labels)])):
                best = max(best, log_evidence(labels, list(changes)))
    return best
