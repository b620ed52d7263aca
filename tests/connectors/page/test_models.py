"""Whatever a model of ``run`` returns can be shown."""

import numpy as np
import pytest

from streamddcrp_connectors.page.observer import LivePage
from streamddcrp_connectors.page.process import Page
from streamddcrp_connectors.run.columns import Columns
from streamddcrp_connectors.run.config import find_recipe
from streamddcrp_connectors.run.loop import run
from streamddcrp_connectors.run.sinks import open_sink
from streamddcrp_connectors.run.sources import open_source

pytest.importorskip("tornado")
N = 120
WORDS = (["oil", "prices", "rise", "opec"], ["team", "wins", "cup", "final"])


@pytest.fixture
def shown(monkeypatch):
    """A page in this process, and the side of the run that talks to it."""

    def make(text):
        page = Page(None)
        observer = LivePage.__new__(LivePage)
        observer._job = None
        observer._dropped, observer._more_due = 0, 0.0
        observer._put = observer._written = 0
        monkeypatch.setattr(page.hub, "changed", lambda: None)
        observer._tell = page.take
        return observer, page

    return make


@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize(
    ("model", "text"),
    [
        ("seqddcrp", False),
        ("ddcrp", False),
        ("temporal-dpm", False),
        ("group-dp", False),
        ("tv-ibp", False),
        ("nested-components", False),
        ("text", True),
        ("temporal-dpm", True),
        ("nested-topics", True),
        ("language", True),
    ],
)
def test_every_model_can_be_shown(tmp_path, shown, model, text, key):
    rng = np.random.default_rng(0)
    path = tmp_path / "rows.csv"
    lines = ["at,k,x"]
    for i in range(N):
        x = (
            " ".join(rng.choice(WORDS[i // 20 % 2], 3))
            if text
            else f"{9 * (i // 20 % 2) + rng.normal():.3f}"
        )
        lines.append(f"{i // 10},{'ab'[i % 2]},{x}")
    path.write_text("\n".join(lines) + "\n")
    observer, page = shown(text)
    source = open_source(path, Columns("at", key, ("x",), text), batch_rows=50)
    sink = open_sink(str(tmp_path / "out.jsonl"), None, None)
    done = run(source, find_recipe(model), sink, watchers=[observer])
    source.close()
    streams = page.hub.streams
    assert done.rows == streams.n_rows == N
    assert sorted(streams.of) == (["a", "b"] if key else [""])  # the last to have news is last
    for stream in streams.of.values():
        assert stream.pyramid.n_rows == (N // 2 if key else N)
        assert stream.pyramid.span == (0.0, 11.0)
    if model == "text" and key is None:
        assert {"oil", "cup"} <= {
            word for story in streams.of[""].stories.values() for word in story["words"].split()
        }
