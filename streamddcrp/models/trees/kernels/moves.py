"""Compiled moves of many documents of the window, and their undoing."""

from streamddcrp.compilation import kernel
from streamddcrp.models.trees.kernels.topics import CONFINED, FORCED, N_NODES, put, visit


@kernel
def _take_all_out(
    which, parent, level, counts, rows, mass, real, offsets, words, n, weights, ends, own, phi,
):  # fmt: skip
    """Take the words of some documents of the window out of the tree."""
    for d in which:
        at, to = offsets[d], offsets[d + 1]
        put(
            parent, level, counts, rows, mass, real, words[at:to], n[at:to], -weights[d], ends[d],
            own[d], phi[at:to],
        )  # fmt: skip


@kernel
def move(
    which, n_rounds, parent, level, born, ids, counts, rows, mass, whole, real, offsets,
    words, n, weights, ends, own, phi, eta, alpha, gamma, beam, rounds, tol, chosen, chances,
    levels, phis, out,
):  # fmt: skip
    """Take some documents of the window out, and place them one by one, ``n_rounds`` times.

    With an endpoint ``whole[FORCED]`` the first one opens a path there, and the others must follow
    it below the new node, in the first round.
    """
    _take_all_out(
        which, parent, level, counts, rows, mass, real, offsets, words, n, weights, ends, own, phi,
    )  # fmt: skip
    for d in which:
        ends[d] = -1
    forced, new = whole[FORCED], whole[N_NODES]
    for r in range(n_rounds):
        for i in range(len(which)):
            d = which[i]
            whole[FORCED] = forced if r == 0 and i == 0 else -1
            together = forced >= 0 and r == 0 and i > 0 and whole[N_NODES] > new
            whole[CONFINED] = new if together else -1
            at, to = offsets[d], offsets[d + 1]
            visit(
                d, parent, level, born, ids, counts, rows, mass, whole, real, words[at:to],
                n[at:to], weights, ends, own, phi[at:to], eta, alpha, gamma, beam, rounds, tol,
                chosen, chances, levels, phis, out,
            )  # fmt: skip


@kernel
def put_back(
    which, old_ends, old_own, old_phi, parent, level, counts, rows, mass, real, offsets, words, n,
    weights, ends, own, phi,
):  # fmt: skip
    """Undo `move`: documents go where they were."""
    _take_all_out(
        which, parent, level, counts, rows, mass, real, offsets, words, n, weights, ends, own, phi,
    )  # fmt: skip
    start = 0
    for i in range(len(which)):
        d = which[i]
        at, to = offsets[d], offsets[d + 1]
        phi[at:to] = old_phi[start : start + to - at]
        start += to - at
        ends[d], own[d] = old_ends[i], old_own[i]
        put(
            parent, level, counts, rows, mass, real, words[at:to], n[at:to], weights[d], ends[d],
            own[d], phi[at:to],
        )  # fmt: skip
