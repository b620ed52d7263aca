"""River's own checks, also those its generator does not run on clusterers."""

import random

import pytest
from river import checks
from river.checks import common

from streamddcrp import SeqDDCRP

ESTIMATORS = {
    "auto": SeqDDCRP,
    "plain": lambda: SeqDDCRP(recall=False, likelihood=("normal_gamma", 0.0, 0.05, 1.5, 1.0)),
    "window": lambda: SeqDDCRP(decay=("window", 10), window=20, warmup=10),
    "full covariance": lambda: SeqDDCRP(likelihood=("normal_wishart", 0.0, 0.05, 1.0, 8.0)),
}
DATA_CHECKS = [
    "check_learn_one", "check_pickling", "check_shuffle_features_no_impact",
    "check_emerging_features", "check_disappearing_features",
    "check_radically_disappearing_features", "check_predict_one_before_any_learn",
    "check_no_state_aliasing_with_input", "check_clone_is_independent",
    "check_seeding_is_idempotent", "check_bounded_memory_growth",
]  # fmt: skip


def rows(n):
    rng = random.Random(0)
    return [({f"x{j}": rng.gauss(3 * (t % 3), 1) for j in range(5)}, None) for t in range(n)]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_check_estimator(name):
    checks.check_estimator(ESTIMATORS[name]())


@pytest.mark.parametrize("check", DATA_CHECKS)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_data_checks(name, check):
    getattr(common, check)(ESTIMATORS[name](), rows(300))
