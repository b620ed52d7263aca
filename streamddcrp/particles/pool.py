"""Room for clusters that particles share (see `kernels.pool`)."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamddcrp.likelihoods.kernels.families import n_post, n_stats, posterior
from streamddcrp.typing import FloatArray, IntArray

UintArray = NDArray[np.uint64]


class Pool(NamedTuple):
    """Clusters, C places of them; place 0 is the empty cluster's, which nobody holds or frees.

    Attributes
    ----------
    stats : ndarray of float64, shape (C, P)
    post : ndarray of float64, shape (C, Q)
        The posterior that belongs to ``stats``.
    members : ndarray of uint64, shape (C,)
        Exclusive or of the members' hashes.
    mixed : ndarray of uint64, shape (C,)
        A hash of ``members``; the exclusive or of those of several clusters is a partition's.
    name : ndarray of int64, shape (C,)
        Position in `Names`.
    holders : ndarray of int64, shape (C,)
        How often particles hold it.
    free : ndarray of int64, shape (C,)
        Free places, the first ``n_free[0]`` entries.
    n_free : ndarray of int64, shape (1,)
    """

    stats: FloatArray
    post: FloatArray
    members: UintArray
    mixed: UintArray
    name: IntArray
    holders: IntArray
    free: IntArray
    n_free: IntArray


class Memo(NamedTuple):
    """What was worked out about clusters for one arrival; nothing outlives it.

    Attributes
    ----------
    seen : ndarray of int64, shape (C,)
        Stamp of the arrival that the rest is for.
    which : ndarray of int64, shape (C,)
        The clusters at hand.
    score, lik : ndarray of float64, shape (C,)
        Log predictive density; the density itself as a share of the largest one.
    heir : ndarray of int64, shape (C,)
        Place of the cluster with the arrival in it; -1 until somebody needs it.
    heir_mixed : ndarray of uint64, shape (C,)
    """

    seen: IntArray
    which: IntArray
    score: FloatArray
    lik: FloatArray
    heir: IntArray
    heir_mixed: UintArray


def empty_pool(family: int, hyper: FloatArray, n: int) -> Pool:
    """Return room for so many clusters, one of them the empty one."""
    fields: dict[str, NDArray[Any]] = {
        "stats": np.zeros((n, int(n_stats(family, hyper)))),
        "post": np.zeros((n, int(n_post(family, hyper)))),
        "members": np.zeros(n, np.uint64),
        "mixed": np.zeros(n, np.uint64),
        "name": np.zeros(n, np.int64),
        "holders": np.zeros(n, np.int64),
        "free": np.arange(n)[::-1].copy(),
        "n_free": np.array([n - 1]),  # place 0, the last of the list, is taken
    }
    posterior(family, hyper, fields["stats"][0], fields["post"][0])
    return Pool(**fields)


def empty_memo(n: int) -> Memo:
    """Return work space for a pool of so many places."""
    fields: dict[str, NDArray[Any]] = {
        "seen": np.full(n, -1),
        "which": np.zeros(n, np.int64),
        "score": np.zeros(n),
        "lik": np.zeros(n),
        "heir": np.full(n, -1),
        "heir_mixed": np.zeros(n, np.uint64),
    }
    return Memo(**fields)
