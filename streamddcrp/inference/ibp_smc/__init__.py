"""The time-varying Indian buffet process by sequential Monte Carlo.

Model: row t has each feature that m of the r rows before it have with probability m / (r + 1), and
Poisson(alpha / (r + 1)) new ones (fewer rows count in the first r); a feature that none of r rows
in a row has is dead. A row is the sum of the loadings of its features, a baseline and Gaussian
noise (`streamddcrp.likelihoods.LinearGaussian`), loadings and noise variance integrated out.

A particle is a choice of features for all rows. An arrival's children are all subsets of a
particle's live features with any number of new ones (of many features, all subsets of the eight
most doubtful ones, the others drawn, with weights to match); their sum is an unbiased factor of the
evidence. A few children of each particle, then as many of all as there are places, are kept by
optimal resampling; twins are merged. Then rows of the window are drawn anew, by exact Gibbs steps
over all their features at once: that is what finds the right features, for the number of particles
decides less.

The first rows are learned by annealing, too (`start`), and both kinds of particles compete.

An arrival costs O(P (K^2 D + 2^K)) and as much for every row drawn anew; memory is
O(P (K^2 + K D + r)), whatever the length of the stream.

References
----------
Caron and Doucet, "Bayesian nonparametric models on decomposable graphs", NIPS 2009, section 4.2;
with corrections: features whose rows are too far apart are per feature, not per matrix, and dead
features are marginalised (the state is a matrix over live features, not over rows).
"""

from streamddcrp.inference.ibp_smc.config import Config, make_config
from streamddcrp.inference.ibp_smc.start import start
from streamddcrp.inference.ibp_smc.state import State, arrays_of, empty_state, state_from_arrays
from streamddcrp.inference.ibp_smc.step import predict_rows, step

__all__ = [
    "Config",
    "State",
    "arrays_of",
    "empty_state",
    "make_config",
    "predict_rows",
    "start",
    "state_from_arrays",
    "step",
]
