"""What all `fit_*` and `sample_*` functions have in common: arguments, chains, starts, traces."""

import inspect
import logging

import numpy as np
import pytest

import streamddcrp
from streamddcrp.estimator.sweeps import Draws

LAST = {
    "fit_": ["n_starts", "max_sweeps", "tol", "seed", "progress"],
    "sample_": ["n_chains", "n_sweeps", "burn_in", "thin", "seed", "progress"],
}
NAMES = [
    name
    for name in streamddcrp.__all__
    if name.startswith(tuple(LAST)) and name != "fit_language"  # exact: neither sweeps nor starts
]
SAMPLERS = [name for name in NAMES if name.startswith("sample_")]
ROWS = np.r_[np.random.default_rng(0).normal(0, 1, (6, 1)), np.arange(9.0, 15.0)[:, None]]
GIVEN = {
    "sample_ddcrp": {"X": ROWS, "alpha": 1.0, "decay": ("exponential", 3.0)},
    "sample_graph_crp": {"X": ROWS, "edges": [[i, i + 1] for i in range(11)]},
    "sample_graph_ibp": {"X": ROWS, "graph": 2},
    "sample_group_dp": {"X": ROWS, "group": list("aabbccaabbcc")},
    "sample_nested_topics": {"documents": np.eye(6, 4, dtype=int) + 1},
    "sample_temporal_dpm": {"epochs": [ROWS[:6], ROWS[6:]]},
}


@pytest.mark.parametrize("name", NAMES)
def test_arguments_have_the_same_names_and_order(name):
    options = inspect.signature(getattr(streamddcrp, name)).parameters
    found = [key for key, option in options.items() if option.kind != option.VAR_KEYWORD]
    last = LAST[name[: name.index("_") + 1]]
    assert found[-len(last) :] == last
    assert (options["seed"].default, options["progress"].default) == (0, False)
    if "likelihood" in options:
        assert found[1] == "likelihood"
        assert options["likelihood"].default == "auto"
    ahead = found[: 1 + ("likelihood" in options)]
    assert all(options[key].kind == options[key].KEYWORD_ONLY for key in found if key not in ahead)


@pytest.mark.parametrize("name", SAMPLERS)
def test_sweeps_are_those_after_the_burn_in_of_each_chain(name):
    few = {"n_chains": 2, "n_sweeps": 9, "burn_in": 3, "thin": 2, "seed": 3}
    draws, again = (getattr(streamddcrp, name)(**GIVEN[name], **few) for _ in range(2))
    assert isinstance(draws, Draws)
    assert draws.chain.tolist() == [0] * 4 + [1] * 4
    assert (len(draws), draws.n_chains) == (8, 2)
    traces = draws.traces()
    np.testing.assert_array_equal(traces["log_joint"].ravel(), draws.log_joint)
    assert all(trace.shape == (2, 4) for trace in traces.values())
    np.testing.assert_array_equal(draws.log_joint, again.log_joint)
    other = getattr(streamddcrp, name)(**GIVEN[name], **few | {"seed": 4})
    assert (other.log_joint != draws.log_joint).any()


@pytest.mark.parametrize("name", SAMPLERS)
def test_every_sampler_has_diagnostics(name, caplog):
    pytest.importorskip("arviz")
    with caplog.at_level(logging.WARNING, logger="streamddcrp"):
        draws = getattr(streamddcrp, name)(
            **GIVEN[name], n_chains=3, n_sweeps=100, burn_in=20, thin=1
        )
    found = draws.diagnostics()
    posterior = draws.to_arviz().posterior
    assert set(found) == set(draws.traces()) == set(posterior.data_vars)
    assert posterior["log_joint"].shape == (3, 100)
    assert 0 < found["log_joint"]["ess_bulk"] < 400
    warned = "have not mixed" in caplog.text
    assert warned == (found["log_joint"]["r_hat"] > 1.1)


def two_groups(seed=0):
    rng = np.random.default_rng(seed)
    return rng.permutation(np.r_[rng.normal(0, 1, (20, 2)), rng.normal(4, 1, (20, 2))])


def starts(name):
    X, rng = two_groups(), np.random.default_rng(1)
    words = rng.poisson(0.7, (20, 12)) + np.kron(np.eye(2, dtype=int), np.ones((10, 6), int))
    return {
        "fit_seqddcrp": ({"X": X, "alpha": 1.0, "decay": "none"}, "bound"),
        "fit_temporal_dpm": ({"epochs": [X[:20], X[20:]], "max_sweeps": 5}, "objective"),
        "fit_nested_components": ({"X": X @ rng.normal(size=(2, 4)), "max_sweeps": 20}, "trace"),
        "fit_nested_topics": ({"documents": words, "max_sweeps": 2}, "trace"),
    }[name]


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("fit_")])
def test_the_best_of_several_starts_is_returned(name):
    given, what = starts(name)

    def value(n_starts):
        fit = getattr(streamddcrp, name)(**given, n_starts=n_starts)
        return fit.bound_trace[-1] if what == "trace" else getattr(fit, what)

    found = [value(n) for n in (1, 2, 6)]
    assert found == sorted(found)
    assert found[0] == value(1)
