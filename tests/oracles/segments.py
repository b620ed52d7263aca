"""Labels cut into regimes, the slow way: every segmentation of the runs is scored."""

from itertools import combinations, groupby, pairwise
from math import lgamma, log

CHANGE = 5.0  # nats
CONCENTRATION = 2.0


def dirichlet_multinomial(labels, n_labels):
    """Log evidence of labels in this order, each row counting for a half."""
    share = CONCENTRATION / n_labels
    counts = [labels.count(k) / 2 for k in set(labels)]
    return (
        sum(lgamma(n + share) - lgamma(share) for n in counts)
        + lgamma(CONCENTRATION) - lgamma(len(labels) / 2 + CONCENTRATION)
    )  # fmt: skip


def log_evidence(runs, n_labels, hold):
    """Log evidence of the runs of one regime: visits cost the same, whatever they are."""
    total, counted = 0.0, []
    for run in runs:
        gain = dirichlet_multinomial(counted + run, n_labels)
        gain -= dirichlet_multinomial(counted, n_labels)
        if len(run) < hold and gain < -CHANGE - log(n_labels):
            total -= CHANGE + log(n_labels)
        else:
            total, counted = total + gain, counted + run
    return total


def segmentations(labels, hold):
    """Yield changes and log evidence of all ways to divide the runs into regimes."""
    runs = [list(run) for _, run in groupby(labels)]
    n_labels = len(set(labels))
    begins = [sum(map(len, runs[:r])) for r in range(len(runs))]
    for n in range(len(runs)):
        for cuts in combinations(range(1, len(runs)), n):
            bounds = [0, *cuts, len(runs)]
            parts = [runs[a:b] for a, b in pairwise(bounds)]
            if n == 0 or all(sum(map(len, part)) >= hold for part in parts):
                score = sum(log_evidence(part, n_labels, hold) for part in parts)
                yield [begins[r] for r in cuts], score - CHANGE * n
