"""Which particle becomes which: copies are made only where an ancestor has several children."""

from streamddcrp.compilation import kernel


@kernel
def ancestors_of(offspring, out_ancestor):
    """List ancestors in ascending order, each as often as it has offspring; return how many."""
    n = 0
    for p in range(len(offspring)):
        for _ in range(offspring[p]):
            out_ancestor[n] = p
            n += 1
    return n


@kernel
def place_children(ancestor, n, used, out_place):
    """Give each of ``n`` children a particle's place: an ancestor's first child keeps that of it.

    Further children take the places, in ascending order, of particles without children. So a caller
    copies where ``out_place[m] != ancestor[m]``, all copies before any change, and nothing else.

    Parameters
    ----------
    ancestor : ndarray of int64, shape (>= n,)
        In ascending order.
    used : ndarray of bool, shape (P,)
        Afterwards: which places are taken. P >= n.
    out_place : ndarray of int64, shape (>= n,)
    """
    used[:] = False
    for m in range(n):
        used[ancestor[m]] = True
    free = 0
    for m in range(n):
        if m == 0 or ancestor[m] != ancestor[m - 1]:
            out_place[m] = ancestor[m]
        else:
            while used[free]:
                free += 1
            used[free] = True
            out_place[m] = free
