"""Many fits at a time give what they give one by one, also when a process is killed."""

import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from streamddcrp import fit_seqddcrp
from streamddcrp.errors import ConfigError, MissingExtraError, SchemaError
from streamddcrp_connectors.fit_many import fit_many

FIT = partial(
    fit_seqddcrp, likelihood=("normal_gamma", 0.0, 0.05, 1.5, 0.5), alpha=1.0, decay="none"
)
X = np.random.default_rng(0).normal(size=(40, 2)) + 9.0 * (np.arange(40) // 20)[:, None]


def killed_once(path, value):
    """Die at the first call, as a process does that is out of memory."""
    if not Path(path).exists():
        Path(path).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return value


def always_killed():
    os.kill(os.getpid(), signal.SIGKILL)


def refuse():
    message = "row 3: no"
    raise SchemaError(message, row=3)


def test_the_results_of_single_calls():
    specs = [partial(FIT, X[:n], seed=7) for n in (20, 30, 40)]
    alone = [spec() for spec in specs]  # first: compiled once, not by each process
    together = fit_many(specs, workers=2)
    elsewhere = fit_many(specs, executor=ThreadPoolExecutor(1))
    for expected, *found in zip(alone, together, elsewhere, strict=True):
        for result in found:
            np.testing.assert_array_equal(result.bound_trace, expected.bound_trace)
            np.testing.assert_array_equal(result.labels, expected.labels)


def test_a_killed_process_is_made_up_for(tmp_path):
    specs = [partial(killed_once, tmp_path / "a", 1), partial(int, "2"), partial(int, "3")]
    assert fit_many(specs, workers=2) == [1, 2, 3]


def test_a_job_that_kills_every_process_ends():
    with pytest.raises(ConfigError, match=r"killed 2 times.*fewer workers"):
        fit_many([always_killed], retries=1)


def test_an_error_names_the_fit():
    with pytest.raises(SchemaError, match="row 3") as caught:
        fit_many([partial(int, "2"), refuse], workers=1)
    assert caught.value.__notes__ == ["fit 1"]


def test_a_fit_without_a_seed_is_refused():
    with pytest.raises(ConfigError, match="fit 0: fit_seqddcrp has no seed"):
        fit_many([partial(FIT, X)])


@pytest.fixture(scope="module")
def ray():
    """Ray on this machine, ended with the module."""
    ray = pytest.importorskip("ray", reason="the extra [ray] is not installed")
    places = os.pathsep.join(sys.path)  # where the tests are, too
    ray.init(
        num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR",
        runtime_env={"env_vars": {"PYTHONPATH": places}},
    )  # fmt: skip
    yield ray
    ray.shutdown()


def test_ray_gives_the_results_of_single_calls(ray, tmp_path):
    """Also of a task whose process was killed; an error is of its class, and names the fit."""
    from streamddcrp_connectors.ray_tasks import RayExecutor

    executor = RayExecutor(num_cpus=1)
    specs = [partial(FIT, X[:n], seed=7) for n in (20, 30)]
    expected = [spec() for spec in specs]
    found = fit_many([*specs, partial(killed_once, tmp_path / "a", 1)], executor=executor)
    assert found[2] == 1
    for one, other in zip(expected, found[:2], strict=True):
        np.testing.assert_array_equal(one.bound_trace, other.bound_trace)
        np.testing.assert_array_equal(one.labels, other.labels)
    with pytest.raises(SchemaError, match="row 3: no") as caught:
        fit_many([partial(int, "2"), refuse], executor=executor)
    assert caught.value.__notes__ == ["fit 1"]


def test_without_ray(monkeypatch):
    from streamddcrp_connectors.ray_tasks import RayExecutor

    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'streamddcrp\[ray\]'"):
        RayExecutor()
