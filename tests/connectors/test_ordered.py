"""Files in another order than that of their times are sorted, series are told apart."""

import json
from datetime import datetime, timedelta
from itertools import pairwise

import numpy as np
import pytest
from click.testing import CliRunner

from streamddcrp_connectors.cli import main
from streamddcrp_connectors.run import ordered

N = 200
STAMPS = [datetime(2021, 1, 5) + timedelta(hours=i) for i in range(N)]
VALUES = np.random.default_rng(2).normal(np.repeat([5, 9], N // 2), 1).round(3).tolist()


def ran(*arguments):
    done = CliRunner().invoke(main, ["run", *map(str, arguments)])
    assert done.exit_code == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def written(path, order, *more):
    lines = [f"{STAMPS[i]},{VALUES[i]}" for i in order]
    path.write_text("\n".join(["at,flow", *lines, *more]) + "\n")
    return path


@pytest.mark.parametrize("order", ["newest first", "shuffled"])
@pytest.mark.parametrize("options", [[], ["--time", "at"], ["--time", "at", "--batch-rows", "7"]])
@pytest.mark.parametrize("piece", [30, 50_000])
def test_rows_in_another_order_are_sorted(tmp_path, order, options, piece, monkeypatch):
    """They keep their numbers; and it is all the same in how many pieces they wait on disk."""
    monkeypatch.setattr(ordered, "_PIECE_ROWS", piece)
    if order == "shuffled" and not options:
        options = ["--time", "at"]  # a time in no order is taken for one only if it is named
    places = np.arange(N)[::-1]
    if order == "shuffled":
        places = np.random.default_rng(5).permutation(N)
    expected, _ = ran(written(tmp_path / "in.csv", range(N)), *options)
    found, said = ran(written(tmp_path / "other.csv", places), *options)
    assert "all rows are read, then sorted by at" in said
    numbers = np.argsort(places).tolist()
    assert [row["row"] for row in found] == numbers
    assert [row | {"row": i} for i, row in enumerate(found)] == expected


def test_an_hour_that_comes_again_late_in_a_file_is_sorted_in(tmp_path):
    """As clocks that are put back write it, far below the first 100 kB; keys do not count."""
    at = [datetime(2021, 1, 5) + timedelta(minutes=i) for i in range(6000)]
    places = [*range(5500), *range(5440, 6000)]
    lines = [f"{at[i]},{'ab'[i % 2]},{i % 7}.25" for i in places]
    path = tmp_path / "in.csv"
    path.write_text("\n".join(["at,key,flow", *lines]))
    for more in ([], ["--by", "key"]):
        found, said = ran(path, "--time", "at", "--features", "flow", *more)
        assert "(row 5,500 is before the one above it)" in said
        assert sorted(row["row"] for row in found) == [*range(len(places))]
        assert all(a["time"] <= b["time"] for a, b in pairwise(found))
    path.write_text("\n".join(["at,key,flow", *(f"{at[i]},k{k},{i % 7}.25" for k in (0, 1)
                                               for i in range(3000))]))  # fmt: skip
    assert "sorted" not in ran(path, "--time", "at", "--features", "flow", "--by", "key")[1]


def test_a_sorted_run_goes_on_where_it_stopped(tmp_path):
    path = written(tmp_path / "in.csv", np.arange(N)[::-1], "2022-01-01,oops")
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    options = [path, "--time", "at", "--batch-rows", 50, "--checkpoint"]
    done = CliRunner().invoke(
        main, list(map(str, ["run", *options, tmp_path / "one", "--sink", first]))
    )
    assert done.exit_code == 2
    assert f"row {N}: column 'flow' must be a number" in done.stderr
    written(path, np.arange(N)[::-1], "2022-01-01,5.5")
    ran(*options, tmp_path / "two", "--sink", second)
    kept = first.read_text().splitlines()
    assert kept == second.read_text().splitlines()[: len(kept)]
    assert len(kept) == N
    done = CliRunner().invoke(
        main, list(map(str, ["run", *options, tmp_path / "one", "--sink", first]))
    )
    assert done.exit_code == 2
    assert "replaced" in done.stderr


def test_a_named_order_needs_a_file(tmp_path):
    for options in (["--late", "sort", "--features", "flow"], ["--late", "sort", "--follow"]):
        path = written(tmp_path / "in.csv", range(N))
        done = CliRunner().invoke(main, ["run", str(path), *options])
        assert done.exit_code == 2
        assert "--late sort needs a file that is whole" in done.stderr


def test_series_one_after_the_other_get_their_own_models(tmp_path):
    days = [datetime(2015, 1, 1) + timedelta(days=i) for i in range(N)]
    pairs = [*zip(days, VALUES, strict=True)]
    rows = [f"{name},{at:%Y-%m-%d},{v}" for name in ("AAL", "ZTS") for at, v in pairs]
    path = tmp_path / "stocks.csv"
    path.write_text("\n".join(["Name,date,close", *rows]))
    for options in ([], ["--time", "date"]):
        found, said = ran(path, *options)
        assert "Name: each of its values has times of its own, and gets its own model" in said
        named, _ = ran(path, *options, "--by", "Name")
        assert found == named
        assert [row["key"] for row in found] == ["AAL"] * N + ["ZTS"] * N


def test_a_report_shows_sorted_rows(tmp_path):
    path, results = written(tmp_path / "in.csv", np.arange(N)[::-1]), tmp_path / "out.jsonl"
    ran(path, "--time", "at", "--sink", results)
    options = ["--source", str(path), "--time", "at", "--out", str(tmp_path)]
    done = CliRunner().invoke(main, ["report", str(results), *options])
    assert done.exit_code == 0, done.stderr
    assert "2021-01-05" in done.stdout
