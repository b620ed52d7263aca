"""A stored state of every format version loads, predicts what it predicted, and goes on learning.

``python -m tests.golden.test_golden`` writes the file of the present version.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from streamddcrp import SeqDDCRP

HERE = Path(__file__).parent
PROBES = [-8.0, -1.0, 0.0, 3.5, 11.0]


def stream():
    """Three regimes, one of which returns; made without a random generator."""
    level = np.repeat([0.0, 8.0, -6.0, 8.0], 40)
    return (level + np.sin(np.arange(160) * 2.399963) * 1.5)[:, None]


def facts(model):
    return {
        "labels": [model.predict_one({0: x}) for x in PROBES],
        "scores": [model.score_one({0: x}) for x in PROBES],
        "objective": model.objective,
        "n_seen": model.n_seen,
        "sizes": model.summary()["weight"].to_pylist(),
    }


@pytest.mark.parametrize("path", sorted(HERE.glob("*.state")), ids=lambda p: p.stem)
def test_stored_states_still_load(path):
    model = SeqDDCRP.load(path)
    expected = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    for name, value in facts(model).items():
        assert value == pytest.approx(expected[name], rel=1e-9), name
    model.learn_many(stream())
    assert model.n_seen == 2 * len(stream())
    assert np.isfinite(model.objective)


def test_a_recorded_run_is_reproduced():
    model = SeqDDCRP(window=16, sweep_every=4, warmup=20)
    out = model.step_many(stream())
    expected = json.loads((HERE / "run.json").read_text(encoding="utf-8"))
    assert out["label"].to_pylist() == expected["label"]
    assert out["score"].drop_null().to_pylist() == pytest.approx(expected["score"], rel=1e-7)


def main():
    model = SeqDDCRP(window=16, sweep_every=4, warmup=20)
    out = model.step_many(stream())
    run = {"label": out["label"].to_pylist(), "score": out["score"].drop_null().to_pylist()}
    (HERE / "run.json").write_text(json.dumps(run) + "\n", encoding="utf-8")
    model.save(HERE / "seqddcrp-1.state")
    (HERE / "seqddcrp-1.json").write_text(json.dumps(facts(model)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
