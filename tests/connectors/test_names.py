"""Names that people give on the page, in events and alarms of a run that goes on."""

import json

from click.testing import CliRunner

from streamddcrp_connectors.cli import main
from streamddcrp_connectors.run.alarming import AlarmRule
from streamddcrp_connectors.run.columns import Columns
from streamddcrp_connectors.run.config import recipe_for
from streamddcrp_connectors.run.loop import open_store, run
from streamddcrp_connectors.run.names import Names
from streamddcrp_connectors.run.sinks import open_sink
from streamddcrp_connectors.run.sources import open_source

from .data import rows, write_jsonl
from .live import read
from .toy import Toy


class Page:
    """Another process that gives a name after some batches, as the page's does."""

    def __init__(self, folder, key, label, after):
        self.folder, self.key, self.label, self.after = folder, key, label, after

    def epoch(self, epoch):
        assert epoch.events is None or "name" in epoch.events.schema.names
        self.after -= 1
        if self.after == 0:
            Names(self.folder).give(self.key, self.label, "cleaning")


def once(folder, n, *, key=None, names=True, watchers=(), ending="jsonl"):
    write_jsonl(folder / "in.jsonl", rows(n))
    source = open_source(folder / "in.jsonl", Columns("t", key, ("a", "b")), batch_rows=20)
    out, events, alarms = (
        open_sink(folder / f"{name}.{ending}", None, folder / "ck", name)
        for name in ("output", "events", "alarms")
    )
    with open_store(folder / "ck") as store:
        run(
            source, recipe_for(Toy, {}, Toy.from_bytes), out, store=store, events=events,
            alarms=alarms, alarm_rule=AlarmRule(0.05), watchers=watchers,
            names=Names(folder / "ck") if names else None,
        )  # fmt: skip
    source.close()


def labelled(folder, what="events"):
    return [
        (row.get("key", ""), row["label"], row["name"]) for row in read(folder / f"{what}.jsonl")
    ]


def test_a_name_is_used_as_soon_as_it_is_given(tmp_path):
    once(tmp_path, 400)
    found = labelled(tmp_path)
    assert found
    assert all(name is None for _, _, name in found)
    (tmp_path / "whole").mkdir()
    once(tmp_path / "whole", 1000)
    late = [row["label"] for row in read(tmp_path / "whole" / "events.jsonl") if row["index"] > 700]
    often = max(set(late), key=late.count)
    page = Page(tmp_path / "ck", "", often, after=5)
    once(tmp_path, 1000, watchers=[page])  # goes on
    labels, names = zip(*[row[1:] for row in labelled(tmp_path)], strict=True)
    assert set(names) == {None, "cleaning"}
    assert all((name is None) or label == often for label, name in zip(labels, names, strict=True))
    first = names.index("cleaning")
    assert all(
        name == "cleaning"
        for label, name in zip(labels[first:], names[first:], strict=True)
        if label == often
    )
    alarms = labelled(tmp_path, "alarms")
    assert alarms
    assert all((name == "cleaning") <= (label == often) for _, label, name in alarms)


def test_a_name_belongs_to_a_key(tmp_path):
    once(tmp_path, 200, key="k")
    (tmp_path / "whole").mkdir()
    once(tmp_path / "whole", 900, key="k")
    key, label, _ = labelled(tmp_path / "whole")[-1]
    Names(tmp_path / "ck").give(key, label, "idle")
    once(tmp_path, 900, key="k")
    found = labelled(tmp_path)
    named = {(key, label) for key, label, name in found if name == "idle"}
    assert named == {(key, label)}
    assert len({key for key, _, _ in found}) == 3


def test_a_job_that_began_without_names_keeps_its_columns(tmp_path):
    once(tmp_path, 200, names=False)
    once(tmp_path, 400)
    assert all("name" not in row for row in read(tmp_path / "events.jsonl"))


def test_tables_have_the_column_from_the_first_event(tmp_path):
    once(tmp_path, 200, ending="parquet")
    Names(tmp_path / "ck").give("", 0, "idle")
    once(tmp_path, 400, ending="parquet")
    assert json.loads((tmp_path / "ck" / "page-names.json").read_text())["names"]


def test_verdicts_act_on_alarms_and_go_with_them(tmp_path):
    once(tmp_path, 400)
    labels = {row["label"] for row in read(tmp_path / "output.jsonl")}
    for label in labels:
        CliRunner().invoke(main, ["name", str(tmp_path / "ck"), str(label), "--verdict", "planned"])
    assert Names(tmp_path / "ck").verdicts_of("") == dict.fromkeys(labels, "planned")
    before = len(read(tmp_path / "alarms.jsonl"))
    (tmp_path / "other").mkdir()
    once(tmp_path / "other", 1000)
    assert any(
        row["row"] > 420 and row["label"] in labels and row["status"] == "firing"
        for row in read(tmp_path / "other" / "alarms.jsonl")
    )
    once(tmp_path, 1000)
    later = read(tmp_path / "alarms.jsonl")[before:]
    assert not any(row["status"] == "firing" and row["label"] in labels for row in later)
    fault = max(labels)
    arguments = ["name", str(tmp_path / "ck"), str(fault), "stuck", "--verdict", "fault"]
    assert CliRunner().invoke(main, arguments).exit_code == 0
    before = len(read(tmp_path / "alarms.jsonl"))
    once(tmp_path, 2000)
    later = read(tmp_path / "alarms.jsonl")[before:]
    told = [row for row in later if row["verdict"] == "fault" and row["status"] == "firing"]
    assert told
    assert told[0]["text"].startswith("the stream entered stuck, marked as a fault")


def test_a_silence_of_the_page_acts_at_once_is_logged_and_stays(tmp_path, caplog):
    caplog.set_level("INFO", "streamddcrp.run")

    class Silent:
        def epoch(self, epoch):
            if epoch.summary.rows == 500:
                page.silence({"key": "*", "reason": "cleaning"}, by="Ann")
                page.acknowledge({"": 10.0}, by="Bob")

    once(tmp_path, 400)
    page = Names(tmp_path / "ck")
    told = len(read(tmp_path / "alarms.jsonl"))
    assert told
    once(tmp_path, 1000, watchers=[Silent()])
    said = [record.getMessage() for record in caplog.records]
    assert "Ann silenced * (cleaning)" in said
    assert "Bob acknowledged the alarm" in said
    rows_told = [row["row"] for row in read(tmp_path / "alarms.jsonl")[told:]]
    assert all(row < 500 for row in rows_told)
    silent = [line for line in said if line.endswith("is silent (cleaning, Ann)")]
    assert silent
    once(tmp_path, 1500)  # after a restart
    assert len(read(tmp_path / "alarms.jsonl")) == told + len(rows_told)
    Names(tmp_path / "ck").end_silence(0, 0.0, by="Ann")
    once(tmp_path, 2000)
    assert len(read(tmp_path / "alarms.jsonl")) > told + len(rows_told)
    assert Names(tmp_path / "ck").history[-1]["did"] == "ended the silence of"
