"""Cursors that say something else under a valid digest: refused, or gone on from; no traceback."""

import copy
import random
import shutil

import pytest
from click.testing import CliRunner

from streamddcrp.checkpoint import SqliteStore
from streamddcrp.errors import CheckpointError
from streamddcrp_connectors.cli import main
from streamddcrp_connectors.run.loop import STORE_NAME
from streamddcrp_connectors.run.models import CURSOR

ODD = (None, True, -1, 0, 3, 10**9, 10**30, 0.5, "", "x", "e30=", [], [1], {}, {"a": 1})


def places(value, path=()):
    """Yield the way to each part of a JSON value."""
    for at in (
        value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    ):
        yield (*path, at)
        yield from places(value[at], (*path, at))


def forged(cursor, seed):
    """Return a cursor with one to three parts replaced or left out."""
    draw, out = random.Random(seed), copy.deepcopy(cursor)
    for _ in range(draw.randint(1, 3)):
        ways = [way for way in places(out) if way[0] != "job"]
        *before, last = draw.choice(ways)
        inside = out
        for part in before:
            inside = inside[part]
        if draw.random() < 0.2:
            del inside[last]
        else:
            inside[last] = draw.choice(ODD)
    return out


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A run that has ended: its arguments, its folder, and its cursor."""
    folder = tmp_path_factory.mktemp("run")
    lines = [f"{1_700_000_000 + 60 * i},{'ab'[i % 2]},{i % 7}" for i in range(200)]
    (folder / "rows.csv").write_text("t,k,a\n" + "\n".join(lines), encoding="utf-8")
    arguments = ["--time", "t", "--features", "a", "--late", "wait=600s", "--alarms"]
    arguments += ["alarms.jsonl", "--sink", "out.jsonl", "--events", "events.jsonl"]
    arguments += ["--checkpoint", "kept", "--batch-rows", "50"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        result = CliRunner().invoke(main, ["run", "rows.csv", *arguments])
        assert result.exit_code == 0, result.output
    with SqliteStore(folder / "kept" / STORE_NAME) as store:
        return arguments, folder, store.offset(CURSOR)


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_forged_cursors_are_refused_or_gone_on_from(stopped, first, tmp_path, monkeypatch):
    arguments, folder, cursor = stopped
    monkeypatch.chdir(tmp_path)
    codes = set()
    for seed in range(first, first + 20):
        shutil.rmtree(tmp_path)
        shutil.copytree(folder, tmp_path)
        monkeypatch.chdir(tmp_path)
        with SqliteStore(tmp_path / "kept" / STORE_NAME) as store:
            store.commit("x", {}, CURSOR, move(forged(cursor, seed), folder, tmp_path))
        result = CliRunner().invoke(main, ["run", "rows.csv", *arguments])
        assert isinstance(result.exception, SystemExit | None), (seed, result.exc_info)
        assert result.exit_code in (0, 2), (seed, result.output)
        codes.add(result.exit_code)
    assert 2 in codes


def move(value, before, now):
    """Return a cursor of a run whose folder was moved."""
    if isinstance(value, dict):
        return {name: move(part, before, now) for name, part in value.items()}
    if isinstance(value, list):
        return [move(part, before, now) for part in value]
    return value.replace(str(before), str(now)) if isinstance(value, str) else value


def test_a_store_that_has_lost_the_model_is_refused(stopped, tmp_path, monkeypatch):
    arguments, _, cursor = stopped
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text("t,k,a\n1,a,1\n", encoding="utf-8")
    with SqliteStore(tmp_path / "kept" / STORE_NAME) as store:
        store.commit("x", {}, CURSOR, move(cursor, stopped[1], tmp_path))
    result = CliRunner().invoke(main, ["run", "rows.csv", *arguments])
    assert result.exit_code == 2
    assert "has lost the model" in result.output


def test_states_that_go_missing_while_open_are_noticed(tmp_path):
    with SqliteStore(tmp_path / "s.sqlite") as store:
        store.commit("model", {"a": b"1", "b": b"2"}, "rows", 1)
        store.get = lambda op, key: None
        with pytest.raises(CheckpointError, match="missing"):
            list(store.states("model"))
