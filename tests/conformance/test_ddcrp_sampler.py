"""DDCRPSampler: tables that are born and die, the picture."""

import numpy as np
import pytest

from streamddcrp import DDCRPSampler


def test_regimes_get_tables_that_are_born_and_die():
    level = np.repeat([0.0, 30.0, 0.0, 60.0], 150)
    X = level[:, None] + np.random.default_rng(10).normal(size=(600, 1))
    model = DDCRPSampler(
        likelihood=("normal_gamma", 0.0, 0.001, 1.5, 1.0), decay=("exponential", 2.0), alpha=0.1
    )
    out = model.step_many(X).to_pydict()
    assert [out["label"][i] for i in (140, 290, 440, 590)] == [0, 150, 300, 450]
    for name in ("p_new", "p_change"):
        assert min(out[name][i] for i in (150, 300, 450)) > 0.99
    reported = [(e.kind, e.label, e.index) for e in model.events() if e.label in (0, 150, 300, 450)]
    births = [event for event in reported if event[0] == "birth"]
    assert births == [("birth", i, i) for i in (0, 150, 300, 450)]
    deaths = {label: index for kind, label, index in reported if kind == "death"}
    # dead once the weight of the last member is below 1e-12 alpha: 30 length scales later, and
    # there is no table any more that outweighs it
    assert set(deaths) == {0, 150, 300}
    assert all(150 <= index - label <= 150 + 65 for label, index in deaths.items())
    assert model.events() == []
    summary = model.summary().to_pydict()
    assert 450 in summary["id"]
    at = summary["id"].index(450)
    assert summary["weight"][at] == pytest.approx(150, abs=2.0)
    assert summary["mean_0"][at] == pytest.approx(60, abs=0.5)
    assert summary["prob"][at] == pytest.approx(1.0)
    assert (summary["born"][at], summary["last_seen"][at]) == (450, 599)
    assert len(summary["id"]) == model.n_tables
