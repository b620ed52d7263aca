"""How the components of an epoch looked: means with their bands, or words."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from streamddcrp.estimators.documents import Word, top_words
from streamddcrp.inference.tdpm_cvb.drift import GaussianDrift
from streamddcrp.inference.tdpm_cvb.text import TextDecay
from streamddcrp.typing import FloatArray, IntArray

__all__ = ["Trait", "traits_of"]


class Trait(NamedTuple):
    """Of K components: means and standard deviations (K, D), or words.

    Attributes
    ----------
    mean, sd : ndarray of float64, shape (K, D)
        D is 0 for texts. ``sd`` is how well the mean is known.
    words : list of str
        Empty for numbers.
    """

    mean: FloatArray
    sd: FloatArray
    words: list[str]


def traits_of(
    emission: Any, stats: Any, smoothed: Any, e: int, which: IntArray, names: Sequence[Word]
) -> Trait:
    """Describe components of an epoch of the window.

    Parameters
    ----------
    emission : Emission
    stats : named tuple
        Of the epoch, shapes (K, ..).
    smoothed : object
        From ``emission.smooth``.
    e : int
        The epoch.
    which : ndarray of int64
        The components.
    names : sequence
        Words by number.
    """
    if isinstance(emission, GaussianDrift):
        mean = smoothed.mean[e, which] + emission.birth_mean
        return Trait(mean, np.sqrt(smoothed.var[e, which]), [])
    none = np.zeros((len(which), 0))
    return Trait(none, none, words_of(emission, stats, which, len(names), names))


def words_of(
    emission: Any, stats: Any, which: IntArray, width: int, names: Sequence[Word]
) -> list[str]:
    """Return the words of components with counts (K, ..)."""
    out = []
    if isinstance(emission, TextDecay):
        bags = stats.words
        have = np.bincount(bags.words, bags.counts, minlength=width).astype(np.float64)
        for k in which.tolist():
            part = slice(bags.offsets[k], bags.offsets[k + 1])
            out.append(top_words(bags.words[part], bags.counts[part], have, names))
        return out
    totals: FloatArray = stats.counts.sum(axis=0)
    for k in which.tolist():
        words = np.flatnonzero(stats.counts[k])
        out.append(top_words(words, stats.counts[k, words], totals, names))
    return out


def latest(engine: Any, K: int, names: Sequence[Word]) -> Trait:
    """Describe the components as they are now: K, the last ones by their rows of the open epoch."""
    emission, n = engine.emission, engine.n_components
    smoothed = engine.smooth()
    fresh = None
    if n < K:
        seated = [np.pad(q, ((0, 0), (0, K - q.shape[1]))) for q in engine.seated]
        fresh = emission.stats(emission.joined(engine.arrived), np.concatenate(seated))
    if isinstance(emission, GaussianDrift):
        mean, sd = np.empty((K, len(emission.noise))), np.empty((K, len(emission.noise)))
        if n:
            mean[:n] = smoothed.filtered_mean[-1]
            sd[:n] = np.sqrt(smoothed.filtered_var[-1])
        if fresh is not None:
            mean[n:] = fresh.total[n:] / fresh.size[n:, None]
            sd[n:] = np.sqrt(emission.noise / fresh.size[n:, None])
        return Trait(mean + emission.birth_mean, sd, [])
    if fresh is None:
        fresh = emission.stats(emission.joined([]), np.zeros((0, K)))
    if n:
        fresh = _with_closed(emission, fresh, engine, smoothed, n, K)
    none = np.zeros((K, 0))
    return Trait(none, none, words_of(emission, fresh, np.arange(K), len(names), names))


def _with_closed(emission: Any, fresh: Any, engine: Any, smoothed: Any, n: int, K: int) -> Any:
    """Add the counts of closed epochs to those of the open one."""
    if isinstance(emission, TextDecay):
        more = np.concatenate([smoothed.latest, emission.no_starts(K - n).words])
        return fresh._replace(words=fresh.words + more)
    counts = fresh.counts.copy()
    counts[:n] += engine.stats(engine.resp).counts.sum(axis=0)
    return type(fresh)(counts)
