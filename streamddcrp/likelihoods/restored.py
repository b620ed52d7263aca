"""The base measure of a stored state; everything but learned values follows from the family.

A stored ``hyper`` is never trusted for its layout, which guides kernels: lengths, codes and offsets
come from the family's parameters, as do all values that methods never change.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from streamddcrp.likelihoods.kernels import families
from streamddcrp.records import REAL, Array, check_one, refuse_if
from streamddcrp.typing import FloatArray

_ROUNDING = 1e-9  # of determinants and roots computed on another processor
_FIXED = (
    families.NORMAL_WISHART, families.DIRICHLET_MULTINOMIAL, families.GAMMA_POISSON,
    families.BETA_BERNOULLI,
)  # fmt: skip


def take_up(family: int, hyper: FloatArray, arrays: Mapping[str, Array]) -> None:
    """Copy the learned values of the stored ``hyper`` into the family's; CheckpointError."""
    stored = arrays["hyper"]
    check_one("hyper", stored, hyper.shape, np.float64, REAL)
    learned, positive = (np.zeros(len(hyper), np.bool_) for _ in range(2))
    for code, h in _parts(family, hyper):
        for part, is_positive in _learned(code, hyper, h):
            learned[part], positive[part] = True, is_positive
    same = np.abs(stored - hyper) <= _ROUNDING * np.abs(hyper)
    refuse_if(not bool((same | learned).all()), "hyper")
    refuse_if(not bool((np.abs(stored[learned]) < np.inf).all()), "hyper")
    refuse_if(not bool((stored[positive] > 0.0).all()), "hyper")
    hyper[learned] = stored[learned]


def _parts(family: int, hyper: FloatArray) -> Iterator[tuple[int, int]]:
    if family != families.PRODUCT:
        yield family, 0
        return
    for code, h, *_ in hyper[4 : 4 + 5 * int(hyper[1])].reshape(-1, 5).astype(np.int64).tolist():
        yield code, h


def _learned(code: int, hyper: FloatArray, h: int) -> Iterator[tuple[slice, bool]]:
    """Yield the slices that `kernels.prior` changes, and whether they are positive."""
    if code == families.NORMAL_GAMMA:
        D, at = int(hyper[h]), h + 1
        yield slice(at + D, at + 2 * D), False  # mean
        yield slice(at + 2 * D, at + 3 * D), True  # kappa
        yield slice(at + 4 * D, at + 5 * D), True  # rate
    elif code == families.REGRESSION:
        D, P = int(hyper[h + 1]), int(hyper[h + 2])
        for at in range(h + 3, h + 3 + D * (2 * P + 2), 2 * P + 2):
            yield slice(at, at + P), False
            yield slice(at + P, at + 2 * P), True
            yield slice(at + 2 * P + 1, at + 2 * P + 2), True
    elif code not in _FIXED:
        raise NotImplementedError(f"family {code} does not say what is learned of its prior")
