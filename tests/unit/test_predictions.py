"""Probabilities that users see lie between 0 and 1, whatever rounding did to them."""

import numpy as np

from streamddcrp.contract import LABEL_PROB, N_OUTPUTS, P_CHANGE, P_NEW, SCORE
from streamddcrp.estimator.views import predictions


def test_rounding_does_not_show_in_probabilities():
    out = np.zeros((2, N_OUTPUTS))
    out[0, [LABEL_PROB, SCORE, P_NEW, P_CHANGE]] = 1.0 + 2e-16, -3.5, -1e-17, -2e-16
    out[1, [LABEL_PROB, SCORE, P_NEW, P_CHANGE]] = 0.5, np.nan, 0.25, np.nan
    first, second = predictions(out).to_pylist()
    assert (first["label_prob"], first["score"]) == (1.0, -3.5)
    assert (first["p_new"], first["p_change"]) == (0.0, 0.0)
    assert (second["label_prob"], second["score"], second["p_change"]) == (0.5, None, None)
