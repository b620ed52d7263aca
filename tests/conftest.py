"""Test set-up: hypothesis profile, shared data, what runs uncompiled.

With NUMBA_DISABLE_JIT=1 kernels are Python and read in bounds, or raise (`make uncompiled`). They
take a hundred times as long, so some tests are left out then; each place has its reason below.
"""

import gc
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests import processor  # noqa: F401 -- before numpy is imported

REPOSITORY = Path(__file__).resolve().parent.parent

# The same examples on each run, so that a failure is the change's; others come nightly
settings.register_profile("dev", max_examples=25, derandomize=True, deadline=None)
settings.register_profile("uncompiled", max_examples=4, derandomize=True, deadline=None)
settings.register_profile("nightly", max_examples=500, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))

UNCOMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") != "0"

# Left out of the uncompiled run: beginnings of the ids of tests, by why.
COMPILED_ONLY = {
    "averages over hundreds of runs of kernels that other tests call as well": (
        "tests/unit/test_ddcrp_filter.py::test_evidence_is_unbiased",
        "tests/unit/test_ddcrp_filter.py::test_many_particles_have_the_posterior",
        "tests/unit/test_graph_crp.py::test_evidence_has_no_bias",
        "tests/unit/test_graph_crp.py::test_merging_lowers_the_variance",
        "tests/unit/test_graph_discount.py::test_evidence_has_no_bias",
        "tests/unit/test_graph_ibp.py::test_gibbs_samples_the_posterior",
        "tests/unit/test_graph_ibp.py::test_unknown_noise_mass_and_ratio",
        "tests/unit/test_group_dp.py::test_evidence_has_no_bias",
        "tests/unit/test_held_out.py::test_draws_estimate_the_joint_without_bias",
        "tests/unit/test_ibp_smc.py::test_a_start_by_annealing_is_unbiased",
        "tests/unit/test_ibp_smc.py::test_evidence_is_unbiased",
        "tests/unit/test_ibp_smc.py::test_rows_drawn_anew_keep_the_posterior",
        "tests/unit/test_infinite_hmm.py::test_evidence_and_means_have_no_bias",
        "tests/unit/test_parameter_chain.py::",
        "tests/unit/test_prior_summary.py::",
        "tests/unit/test_temporal_gibbs.py::test_draws_follow_the_posterior",
    ),
    "streams of thousands of rows": (
        "tests/properties/test_adversarial_stream.py::",
        "tests/unit/test_batch.py::test_headline_of_the_paper",
        "tests/unit/test_batch.py::test_merging_finds_one_broad_table",
        "tests/unit/test_group_dp.py::test_a_group_that_nobody_knows",
        "tests/unit/test_ibp_smc.py::test_more_features_than_are_enumerated",
        "tests/unit/test_keyed.py::test_kill_leaves_the_last_save",
        "tests/unit/test_keyed.py::test_memory_is_bounded",
        "tests/unit/test_ibp_smc.py::test_with_many_particles_the_filter_is_exact[4-2-3",
        "tests/unit/test_languages.py::",
        "tests/unit/test_nested_steps.py::test_moves_leave_trees_and_raise_the_bound",
        "tests/unit/test_real_series.py::",
        "tests/unit/test_seasons.py::test_nothing_is_found_where_nothing_is",
        "tests/unit/test_sample_ddcrp.py::test_diagnostics",
        "tests/unit/test_sample_ddcrp.py::test_equal_seeds_give_equal_bits",
        "tests/unit/test_sample_ddcrp.py::test_two_groups_are_found",
        "tests/unit/test_temporal_text.py::test_long_texts",
        "tests/unit/test_temporal_text.py::test_quality_of_other_settings",
        "tests/unit/test_temporal_text.py::test_two_topics_that_began_as_one",
        "tests/unit/test_text_decay.py::test_a_planted_decay",
        "tests/unit/test_text_decay.py::test_stories_that_last_some_hours",
        "tests/unit/test_words.py::test_long_words_and_long_documents",
        "tests/unit/test_words.py::test_memory_of_words_that_come_and_go_is_flat",
    ),
    "whole programs, how quick they are, and which files Python runs": (
        "tests/unit/test_engine_benchmark.py::",
        "tests/unit/test_examples.py::",
        "tests/unit/test_exports.py::",
        "tests/unit/test_how_to.py::",
        "tests/unit/test_text_benchmark.py::",
        "tests/unit/test_way_of_a_row.py::",
    ),
}


def pytest_configure(config: pytest.Config) -> None:
    from streamddcrp.checkpoint import store

    # The machine goes on; power_driver.py has what is lost when it stops.
    os.fsync = lambda _: None
    store._SETTINGS = tuple(setting.replace("=full", "=off") for setting in store._SETTINGS)
    # numpy warns where compiled code does not: hashes of words wrap around, an infinite square is
    # above what is left in a regression, an infinite product of rates has its log taken apart, a
    # giant is no season, and a move of a tree may leave a document no endpoint.
    if UNCOMPILED:
        for kernels in (
            "data.kernels.words", "data.kernels.pieces", "data.seasons.kernels",
            "likelihoods.kernels.gaussian", "likelihoods.kernels.regression",
        ):  # fmt: skip
            overflow = "ignore:overflow encountered in scalar:RuntimeWarning"
            config.addinivalue_line("filterwarnings", f"{overflow}:streamddcrp.{kernels}")
        invalid = "ignore:invalid value encountered in scalar subtract:RuntimeWarning"
        tree = "streamddcrp.models.trees.kernels.tree"
        config.addinivalue_line("filterwarnings", f"{invalid}:{tree}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if UNCOMPILED:
        names = tuple(name for names in COMPILED_ONLY.values() for name in names)
        left_out = [item for item in items if item.nodeid.startswith(names)]
        items[:] = [item for item in items if not item.nodeid.startswith(names)]
        config.hook.pytest_deselected(items=left_out)


@pytest.fixture(autouse=True, scope="module")
def _kernels_set_aside() -> None:
    """Leave out of later collections what is there: loaded kernels are millions of objects.

    What the module before left to the collector, such as sockets, is not this one's error.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _figures_closed() -> Iterator[None]:
    """Close what a test drew: pyplot warns at its 21st open figure, whichever test draws it."""
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of the real data sets: ``shared/data`` beside the checkout, or $STREAMDDCRP_SHARED."""
    given = os.environ.get("STREAMDDCRP_SHARED")
    folder = Path(given) if given else REPOSITORY.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(
            f"no shared data at {folder}; set STREAMDDCRP_SHARED to the folder of data sets"
        )
    return folder
