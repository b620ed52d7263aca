"""Sources, sinks and models are found by entry point; ours never vanish."""

from importlib.metadata import EntryPoint

import pytest

from streamddcrp.errors import ConfigError
from streamddcrp_connectors.run import plugins
from streamddcrp_connectors.run.columns import Columns
from streamddcrp_connectors.run.config import find_recipe
from streamddcrp_connectors.run.plugins import MODELS, SINKS, SOURCES, find, installed
from streamddcrp_connectors.run.sinks import open_sink
from streamddcrp_connectors.run.sources import open_source

GROUPS = [SOURCES, SINKS, MODELS]


@pytest.fixture
def others(monkeypatch):
    """Replace what other packages have registered."""
    found = []
    monkeypatch.setattr(
        plugins, "entry_points", lambda group: [point for point in found if point.group == group]
    )
    return found


@pytest.mark.parametrize("group", GROUPS)
def test_ours_load_whatever_is_installed(others, group):
    for name in plugins.ours(group):
        assert callable(find(group, name))


def test_others_come_after_ours_and_cannot_replace_them(others):
    others += [EntryPoint("csv", "other:Csv", SOURCES), EntryPoint("sine", "other:Sine", SOURCES)]
    assert list(installed(SOURCES)) == [*plugins.ours(SOURCES), "sine"]
    assert installed(SOURCES)["csv"].value == "streamddcrp_connectors.run.sources:open_csv"


def test_what_is_not_installed_is_refused_with_what_is(others, tmp_path):
    with pytest.raises(ConfigError, match="no source 'sine'; installed are arrow, csv, delta"):
        open_source("sine://x", Columns())
    with pytest.raises(ConfigError, match="no sink 'carrier'; installed are arrow, dataset, delta"):
        open_sink("carrier://x", None, None)
    with pytest.raises(ConfigError, match=r"must be one of ddcrp, .*tv-ibp or"):
        find_recipe("mine")


def test_an_entry_point_that_cannot_be_imported(others):
    others += [EntryPoint("mine", "no_such_package:Model", MODELS)]
    with pytest.raises(ConfigError, match=r"model 'mine' cannot be imported .*no_such_package"):
        find_recipe("mine")


def test_a_missing_package_is_named_with_the_extra_that_has_it(others):
    others += [EntryPoint("mine", "no_such_package:Model [mine]", MODELS)]
    with pytest.raises(ConfigError, match=r"no_such_package.*pip install 'streamddcrp\[mine\]'"):
        find_recipe("mine")
