"""The same data in one piece and as a stream: two bounds on the same log evidence.

Run: python examples/batch_and_stream.py
"""

import numpy as np

from streamddcrp import SeqDDCRP, fit_seqddcrp
from streamddcrp.decay import Exponential
from streamddcrp.likelihoods import NormalWishart


def main() -> None:
    rng = np.random.default_rng(1)
    centre = np.repeat([[0, 0], [4, 4], [0, 6]], 100, axis=0)
    X = centre + rng.normal(size=centre.shape)

    likelihood = NormalWishart([2.0, 3.0], 0.05, np.eye(2), 4.0)
    fit = fit_seqddcrp(X, likelihood, alpha=0.1, decay=Exponential(20.0), progress=True)
    print(f"batch:  bound {fit.bound:9.2f}, {len(fit.openers)} tables, {fit.n_sweeps} sweeps")

    model = SeqDDCRP(likelihood=likelihood, alpha=0.1, decay=Exponential(20.0), recall=False)
    model.learn_many(X)
    print(f"stream: bound {model.bound:9.2f}, {model.n_tables} live tables, one pass")


if __name__ == "__main__":
    main()
