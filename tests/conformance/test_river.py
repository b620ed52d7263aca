"""River's own checks, also those its generator does not run on clusterers."""

import pytest
from river import base, checks
from river.checks import common

from tests.conformance.forms import river_rows
from tests.conformance.laws import law

CHECKS = [
    "check_learn_one", "check_pickling", "check_shuffle_features_no_impact",
    "check_predict_one_before_any_learn", "check_no_state_aliasing_with_input",
    "check_clone_is_independent", "check_seeding_is_idempotent", "check_bounded_memory_growth",
]  # fmt: skip
# Not check_emerging_features: it learns rows that share no column with those before, which are
# refused here, as they are hardly ever meant.
WITH_GAPS = ["check_disappearing_features", "check_radically_disappearing_features"]


@law("river", "estimator")
def test_check_estimator(case, monkeypatch):
    def datasets(model, scale=1):
        """Stand for river's, some of which would be downloaded; it has none for clusterers."""
        rows = case.river or river_rows
        return [] if isinstance(model, base.Clusterer) else [rows(100 * scale)]

    monkeypatch.setattr(checks, "_yield_datasets", datasets)
    checks.check_estimator(case.make())


@law("river", where=lambda case: case.river is not None)
@pytest.mark.parametrize("check", CHECKS)
def test_data_checks(case, check):
    getattr(common, check)(case.make(), case.river(300))


@law("river", "gaps", where=lambda case: case.river is not None)
@pytest.mark.parametrize("check", WITH_GAPS)
def test_checks_of_missing_features(case, check):
    getattr(common, check)(case.make(), case.river(300))
