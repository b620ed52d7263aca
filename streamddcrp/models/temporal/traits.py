"""How the components of an epoch looked: means with their bands, or words."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from streamddcrp.data.documents import Word, top_words
from streamddcrp.models.temporal.emissions.conjugate import ConjugateDecay
from streamddcrp.models.temporal.emissions.drift import GaussianDrift
from streamddcrp.models.temporal.emissions.text import TextDecay
from streamddcrp.typing import FloatArray, IntArray


class Trait(NamedTuple):
    """Of K components: parameters by name, or words.

    Attributes
    ----------
    values : dict of str to ndarray of float64, shape (K, D)
        Drifting means: ``mean``, and how well it is known, ``sd``. Conjugate families: their point
        estimates, NaN where a column has none such. Empty for texts.
    words : list of str
        Empty for numbers.
    """

    values: dict[str, FloatArray]
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
        return Trait({"mean": mean, "sd": np.sqrt(smoothed.var[e, which])}, [])
    if isinstance(emission, ConjugateDecay):
        return Trait(emission.likelihood.point_estimates(smoothed.near[e, which]), [])
    return Trait({}, words_of(emission, stats, which, len(names), names))


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
        return Trait({"mean": mean + emission.birth_mean, "sd": sd}, [])
    if isinstance(emission, ConjugateDecay):
        sums = emission.no_starts(K).sums if fresh is None else fresh.sums.copy()
        sums[:n] = smoothed.filtered[-1] if n else sums[:n]
        return Trait(emission.likelihood.point_estimates(sums), [])
    if fresh is None:
        fresh = emission.stats(emission.joined([]), np.zeros((0, K)))
    if n:
        fresh = _with_closed(emission, fresh, engine, smoothed, n, K)
    return Trait({}, words_of(emission, fresh, np.arange(K), len(names), names))


def _with_closed(emission: Any, fresh: Any, engine: Any, smoothed: Any, n: int, K: int) -> Any:
    """Add the counts of closed epochs to those of the open one."""
    if isinstance(emission, TextDecay):
        more = np.concatenate([smoothed.latest, emission.no_starts(K - n).words])
        return fresh._replace(words=fresh.words + more)
    counts = fresh.counts.copy()
    counts[:n] += engine.stats(engine.resp).counts.sum(axis=0)
    return type(fresh)(counts)
