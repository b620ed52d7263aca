"""A folder of text files as a source: each file a document, by name."""

import json

import pytest
from click.testing import CliRunner

from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp_connectors.cli import main
from streamddcrp_connectors.run.columns import Columns, refusals
from streamddcrp_connectors.run.sources import open_source

TEXT = Columns(features=("text",), text=True)


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "news"
    (folder / "b").mkdir(parents=True)
    (folder / ".git").mkdir()
    for name in ("c.txt", "a.txt", "b/1.txt", "b/0.txt", ".hidden", ".git/config"):
        (folder / name).write_text(f"told in {name}, é")
    return folder


def rows(source, after=None):
    found = []
    for batch, offset in source.read_after(after):
        kept, refused = refusals(batch)
        found += list(zip(kept["file"].to_pylist(), kept["text"].to_pylist(), strict=True))
        assert offset["row"] >= len(found)
        for refusal in refused.values():
            found.append(refusal.reason)
    return found, offset


def test_files_are_documents_by_name(folder):
    source = open_source(folder, TEXT, batch_rows=3)
    assert source.n_rows == 4
    names = ["a.txt", "b/0.txt", "b/1.txt", "c.txt"]
    found, end = rows(source)
    assert found == [(name, f"told in {name}, é") for name in names]
    assert end == {"row": 4, "file": "c.txt"}
    (folder / "d.txt").write_text("later")
    again = open_source(folder, TEXT)
    assert rows(again, end)[0] == [("d.txt", "later")]
    (folder / "aa.txt").write_text("before")
    with pytest.raises(SchemaError, match=r"files before c.txt were added or removed"):
        rows(open_source(folder, TEXT), end)


def test_what_is_no_text_is_refused_by_name(folder):
    (folder / "bad.txt").write_bytes(b"ab\xff")
    found, _ = rows(open_source(folder, TEXT))
    assert "file 'bad.txt' is not UTF-8 at byte 2" in found


@pytest.mark.parametrize(
    ("columns", "more", "match"),
    [
        (Columns(features=("body",), text=True), {}, "it has text"),
        (Columns(), {}, "--text text"),
        (Columns(key="file", features=("text",), text=True), {}, "--text text"),
        (TEXT, {"follow": True}, "cannot be followed"),
        (TEXT, {"format": "csv"}, "no format"),
    ],
)
def test_what_does_not_fit(folder, columns, more, match):
    with pytest.raises(ConfigError, match=match):
        open_source(folder, columns, **more)


def test_an_empty_folder(tmp_path):
    with pytest.raises(SchemaError, match="holds no files"):
        open_source(tmp_path, TEXT)


@pytest.mark.parametrize("model", ["text", "nested-topics"])
def test_a_run_tells_the_files(folder, tmp_path, model):
    (folder / "bad.txt").write_bytes(b"\xff")
    out, dead = tmp_path / "out.jsonl", tmp_path / "dead.jsonl"
    done = CliRunner().invoke(
        main,
        ["run", str(folder), "--text", "text", "--model", model, "--sink", str(out),
         "--on-error", f"dead-letter={dead}", "--checkpoint", str(tmp_path / "kept")],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    lines = [
        row for row in lines if row["row"] is not None
    ]  # the others are final labels at the end
    assert [row["file"] for row in lines] == ["a.txt", "b/0.txt", "b/1.txt", "c.txt"]
    assert [row["row"] for row in lines] == [0, 1, 2, 4]
    assert "bad.txt" in dead.read_text()
