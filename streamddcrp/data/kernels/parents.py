"""Given parents of items: whether they exist, are within reach and form a clique."""

from streamddcrp.compilation import kernel

ABSENT, OLD, TWICE, NO_CLIQUE = 1, 2, 3, 4


@kernel
def _is_parent(i, of, first, parents, offsets, kept, n_kept):
    """Whether item i is a parent of an earlier item, in the batch or before."""
    if of >= first:
        return i in parents[offsets[of - first] : offsets[of - first + 1]]
    at = of % len(n_kept)
    return i in kept[at, : n_kept[at]]


@kernel
def check_parents(first, r, parents, offsets, kept, n_kept):
    """Find the first row whose parents are not a clique of the last r items.

    Returns the row (-1: none), the rule, and the two items that break it. It suffices that the
    other parents are parents of the last one, because the parents of any item are a clique.
    """
    for b in range(len(offsets) - 1):
        n = first + b
        last = -1
        for a in range(offsets[b], offsets[b + 1]):
            i = parents[a]
            if i < 0 or i >= n:
                return b, ABSENT, i, n
            if i < n - r:
                return b, OLD, i, n
            for c in range(offsets[b], a):
                if parents[c] == i:
                    return b, TWICE, i, n
            last = max(last, i)
        for a in range(offsets[b], offsets[b + 1]):
            i = parents[a]
            if i != last and not _is_parent(i, last, first, parents, offsets, kept, n_kept):
                return b, NO_CLIQUE, i, last
    return -1, 0, 0, 0


@kernel
def keep_parents(first, parents, offsets, kept, n_kept):
    """Store the parents of the last items."""
    for b in range(len(offsets) - 1):
        at = (first + b) % len(n_kept)
        n_kept[at] = offsets[b + 1] - offsets[b]
        kept[at, : n_kept[at]] = parents[offsets[b] : offsets[b + 1]]
