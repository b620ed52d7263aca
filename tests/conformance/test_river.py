"""River's own checks, also those its generator does not run on clusterers."""

import pytest
from river import base, checks
from river.checks import common

from tests.conformance.cases import CASES
from tests.conformance.forms import river_rows
from tests.conformance.laws import law

CHECKS = [
    "check_learn_one", "check_pickling", "check_shuffle_features_no_impact",
    "check_predict_one_before_any_learn", "check_no_state_aliasing_with_input",
    "check_clone_is_independent", "check_seeding_is_idempotent",
]  # fmt: skip
# Not check_emerging_features: it learns rows that share no column with those before, which are
# refused here, as they are hardly ever meant.
WITH_GAPS = ["check_disappearing_features", "check_radically_disappearing_features"]


def first_of_its_class(case):
    """For checks that walk all Python objects, which takes seconds."""
    return case is next(c for c in CASES if c.river and c.kind is case.kind)


@law("river", "estimator")
def test_check_estimator(case, monkeypatch):
    def datasets(model, scale=1):
        """Stand for river's, some of which would be downloaded; it has none for clusterers."""
        rows = case.river or river_rows
        some = not isinstance(model, base.Clusterer) and (case.river is None or first)
        return [rows(100 * scale)] if some else []

    first = case.river is not None and first_of_its_class(case)
    monkeypatch.setattr(checks, "_yield_datasets", datasets)
    checks.check_estimator(case.make())


@law("river", where=lambda case: case.river is not None)
@pytest.mark.parametrize("check", CHECKS)
def test_data_checks(case, check):
    getattr(common, check)(case.make(), case.river(300))


@law("river", where=lambda case: case.river is not None and first_of_its_class(case))
def test_memory_by_rivers_check(case):
    """It lets a model grow by three times as much again; `test_memory_is_flat` is strict."""
    common.check_bounded_memory_growth(case.make(), case.river(300))


@law("river", "gaps", where=lambda case: case.river is not None)
@pytest.mark.parametrize("check", WITH_GAPS)
def test_checks_of_missing_features(case, check):
    getattr(common, check)(case.make(), case.river(300))
