"""What the chains of a sampler have drawn."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamddcrp.decay import Decay
from streamddcrp.errors import MissingExtraError
from streamddcrp.likelihoods import Likelihood
from streamddcrp.typing import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class DDCRPSamples:
    """Draws of links from their posterior: S in all, those of one chain after those of another.

    Attributes
    ----------
    links : ndarray of int32, shape (S, N)
        Whom each customer links to.
    labels : ndarray of int32, shape (S, N)
        Table of each customer, named after the smallest customer at it.
    chain : ndarray of int64, shape (S,)
        Number of the chain.
    n_tables : ndarray of int64, shape (S,)
    log_joint : ndarray of float64, shape (S,)
        Log p(x, c) of rows and links, normalised, at the alpha and decay of the draw.
    alpha : ndarray of float64, shape (S,)
    decay_parameter : ndarray of float64, shape (S,)
        Width, scale or location of the decay; NaN if it has none of these.
    likelihood : Likelihood
        With the parameters that were taken from the rows.
    decay : Decay
        As it was given.
    """

    links: NDArray[np.int32]
    labels: NDArray[np.int32]
    chain: IntArray
    n_tables: IntArray
    log_joint: FloatArray
    alpha: FloatArray
    decay_parameter: FloatArray
    likelihood: Likelihood
    decay: Decay

    @property
    def n_chains(self) -> int:
        """Number of chains."""
        return int(self.chain[-1]) + 1

    def __len__(self) -> int:
        """Return the number of draws S."""
        return len(self.chain)

    def traces(self) -> dict[str, FloatArray]:
        """Return the numbers followed along each chain, those that vary, each (chains, draws)."""
        all_of_them = {
            "n_tables": self.n_tables.astype(np.float64),
            "log_joint": self.log_joint,
            "alpha": self.alpha,
            "decay_parameter": self.decay_parameter,
        }
        return {
            name: values.reshape(self.n_chains, -1)
            for name, values in all_of_them.items()
            if name in {"n_tables", "log_joint"} or (values != values[0]).any()
        }

    def diagnostics(self) -> dict[str, dict[str, float]]:
        """Say whether the chains agree and how many independent draws they are worth.

        Returns
        -------
        dict
            For each trace: ``mean``, ``sd``, ``mcse`` (standard error of the mean by Monte Carlo),
            ``ess_bulk``, ``ess_tail`` (effective sample sizes) and ``r_hat``: above 1.01 the chains
            have not mixed; NaN with one chain. Of a trace that never changes all but the mean and
            sd are NaN.

        Raises
        ------
        MissingExtraError
            If ArviZ is not installed.
        """
        az = _arviz()
        out = {}
        for name, x in self.traces().items():
            found = dict.fromkeys(("mcse", "ess_bulk", "ess_tail", "r_hat"), float("nan"))
            if x.shape[1] >= 4 and (np.ptp(x, axis=1) > 1e-12 * np.abs(x).max()).all():
                found["mcse"] = float(np.squeeze(az.mcse(x)))
                found["ess_bulk"] = float(az.ess(x))
                found["ess_tail"] = float(az.ess(x, method="tail"))
                if len(x) > 1:
                    found["r_hat"] = float(az.rhat(x))
            out[name] = {"mean": float(x.mean()), "sd": float(x.std())} | found
        return out

    def to_arviz(self) -> Any:
        """Return the traces as ``arviz.InferenceData``, for its plots and summaries.

        Raises
        ------
        MissingExtraError
            If ArviZ is not installed.
        """
        return _arviz().from_dict(posterior=self.traces())


def _arviz() -> Any:
    """Import ArviZ, or say how to install it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # announces its next version
            import arviz  # noqa: PLC0415
    except ImportError as error:
        message = "diagnostics need ArviZ: pip install 'streamddcrp[diagnostics]'"
        raise MissingExtraError(message) from error
    return arviz
