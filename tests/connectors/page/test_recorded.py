"""The page over what a run has written."""

import json

import pytest
from click.testing import CliRunner

from streamddcrp.errors import ConfigError
from streamddcrp_connectors.cli import main
from streamddcrp_connectors.page.recorded import _read
from streamddcrp_connectors.run.columns import Columns
from streamddcrp_connectors.run.config import recipe_for
from streamddcrp_connectors.run.loop import run
from streamddcrp_connectors.run.sinks import open_sink
from streamddcrp_connectors.run.sources import open_source
from tests.connectors.toy import Toy

pytest.importorskip("tornado")


@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("with_source", [True, False])
def test_it_shows_what_was_written(good, tmp_path, key, with_source):
    columns = Columns("t", key, ("a", "b"))
    source = open_source(good, columns)
    sink, events = (open_sink(str(tmp_path / name), None, None) for name in ("o.jsonl", "e.jsonl"))
    run(source, recipe_for(Toy, {}, Toy.from_bytes), sink, events=events)
    source.close()
    path = str(good) if with_source else None
    streams = _read(str(tmp_path / "o.jsonl"), path, columns, str(tmp_path / "e.jsonl"))
    assert streams.n_rows == 60
    assert sorted(streams.of) == (["x", "y", "zz"] if key else [""])
    assert sum(stream.pyramid.n_rows for stream in streams.of.values()) == 60
    assert streams.job.features == (["a", "b"] if with_source else [])
    assert not streams.job.live
    told = {"index": 3, "kind": "birth", "label": 1, "into": None, "why": "a 1 to 2"}
    told |= {"key": "x"} if key else {}
    (tmp_path / "why.jsonl").write_text(json.dumps(told) + "\n")
    streams = _read(str(tmp_path / "o.jsonl"), path, columns, str(tmp_path / "why.jsonl"))
    last = streams.of["x" if key else ""].feed.since(0)[-1]
    assert (last["kind"], last["why"]) == ("birth", "a 1 to 2")
    if with_source:
        with pytest.raises(ConfigError, match="give the same --time COL"):
            _read(str(tmp_path / "o.jsonl"), path, Columns(None, key), None)


def test_what_cannot_be_read_is_refused_in_a_line(tmp_path):
    done = CliRunner().invoke(main, ["serve", str(tmp_path / "none.jsonl")])
    assert done.exit_code == 2
    assert done.output.count("\n") == 1
    assert "none.jsonl" in done.output
