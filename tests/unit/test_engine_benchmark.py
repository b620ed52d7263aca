"""What the benchmark of the streaming engine measures with: scores, streams, baselines."""

from __future__ import annotations

import importlib.util
import itertools
from concurrent.futures import Executor, Future
from functools import partial

import click
import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from river import drift
from scipy import stats
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_limits

from benchmarks import engine, engine_changes, engine_quality, engine_speed, peers, streams
from benchmarks.bocd import run_lengths
from benchmarks.options import Options, SeedRange
from benchmarks.oracle import nearest, sticky_filter
from benchmarks.scores import apart, match, switches, windowed_ari

# -- scores ----------------------------------------------------------------------------------------


def test_switches_close_to_the_one_before_are_part_of_it():
    changes = [20, 25, 36, 48, 100]  # 25 and 36 follow within 11 rows, 48 after 12
    y = np.zeros(120, dtype=int)
    for place in changes:
        y[place:] += 1
    assert switches(y).tolist() == [20, 48, 100]


def test_a_stream_without_switches_has_none():
    assert switches(np.zeros(5, dtype=int)).tolist() == []


def test_apart_counts_from_the_last_one_kept():
    assert apart([3, 10, 14, 15, 26, 27]).tolist() == [3, 15, 27]


def test_hits_from_three_rows_early_to_thirty_late():
    assert match([100], [97]) == ([-3], 0)
    assert match([100], [96]) == ([], 1)
    assert match([100], [130]) == ([30], 0)
    assert match([100], [131]) == ([], 1)
    assert match([100], []) == ([], 0)


def test_an_alarm_answers_for_one_switch_and_a_second_one_is_false():
    assert match([100, 115], [118]) == ([18], 0)  # the earlier switch takes it
    assert match([100], [101, 110]) == ([1], 1)
    assert match([100, 115, 300], [99, 116, 200, 304]) == ([-1, 1, 4], 1)


def test_windows_forgive_names_that_change_between_them():
    y = np.tile([0, 1], 10)
    label = np.where(np.arange(20) < 10, y, 1 - y)
    assert windowed_ari(y, label, width=10) == 1.0
    assert adjusted_rand_score(y, label) < 0.1
    # The last window is what is left: rows 16 to 19, all of one label, against two.
    label[16:] = 0
    assert windowed_ari(y, label, width=16) == pytest.approx(
        (adjusted_rand_score(y[:16], label[:16]) + 0.0) / 2
    )


def test_the_alarm_rule_reads_rises_of_the_table():
    p = [None, 0.9, 0.9, 0.1, 0.9, *[0.1] * 8, 0.6, 0.6, 0.4]
    out = pa.RecordBatch.from_pydict({"p_change": pa.array(p, pa.float64())})
    assert engine_changes.alarms_of(out).tolist() == [1, 13]  # the rise at 4 is within 12 rows
    assert engine_changes.alarms_of(out, 0.7).tolist() == [1]


# -- streams ---------------------------------------------------------------------------------------


def test_streams_are_those_the_peers_were_measured_on(shared_data):
    path = shared_data.parent / "peers" / "streams.py"
    if not path.is_file():
        pytest.skip(f"no peers' streams at {path}")
    spec = importlib.util.spec_from_file_location("peer_streams", path)
    shared = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(shared)
    for seed, n in itertools.product((0, 3), (100, 2500)):
        pairs = [
            (streams.rare_switches(n, seed), shared.regime(n, seed, full=True)),
            (streams.drifting_gaussians(n, seed)[:2], shared.rbf_drift(n, seed)),
        ]
        for radius, shuffled in itertools.product((3.0, 5.0), (False, True)):
            ours = streams.five_gaussians(n, radius, seed, shuffled=shuffled)
            pairs.append((ours, shared.five_gaussians(n, seed, radius, shuffled)))
        for ours, theirs in pairs:
            for mine, yours in zip(ours, theirs, strict=True):
                np.testing.assert_array_equal(mine, yours)


@pytest.mark.parametrize(
    ("n", "seed", "n_switches"),
    [(2000, 0, 24), (2000, 1, 16), (2000, 2, 19), (20_000, 0, 34), (20_000, 1, 28)],
)
def test_switches_as_published_for_the_peers(n, seed, n_switches):
    assert len(switches(streams.rare_switches(n, seed)[1])) == n_switches


@pytest.mark.parametrize(("seed", "hits", "false"), [(0, 24, 2), (1, 16, 3), (2, 19, 5)])
def test_page_hinkley_scores_as_published(seed, hits, false):
    X, y, _, _ = streams.rare_switches(2000, seed)
    delays, wrong = match(switches(y), engine_changes.detector(drift.PageHinkley, X))
    assert (len(delays), wrong) == (hits, false)


def test_drifting_gaussians_tell_which_means_made_the_rows():
    X, y, means, labels = streams.drifting_gaussians(3000, 1, life=300.0)
    at = np.argmax(labels == y[:, None], axis=1)
    assert (labels[np.arange(3000), at] == y).all()
    residual = X - means[np.arange(3000), at]
    assert stats.kstest(residual.ravel(), "norm").pvalue > 1e-4
    assert len(np.unique(y)) > 5  # births


# -- oracles ---------------------------------------------------------------------------------------


def test_sticky_filter_against_all_paths():
    X, y = np.array([[0.2], [1.4], [2.2], [0.9], [0.1]]), np.array([0, 1, 1, 0, 0])
    mean, sd = np.array([0.0, 1.0, 2.0]), np.array([0.7, 0.9, 1.3])
    stay = 0.5  # two of four steps leave
    density = stats.norm.pdf(X, mean, sd)
    expected = []
    for t in range(1, 6):
        total = np.zeros(3)
        for path in itertools.product(range(3), repeat=t):
            steps = np.equal(path[1:], path[:-1])
            prior = np.prod(np.where(steps, stay, (1 - stay) / 2)) / 3
            total[path[-1]] += prior * np.prod(density[range(t), path])
        expected.append(total.argmax())
    assert sticky_filter(X, y, mean, sd).tolist() == expected


def test_nearest_mean_fixed_or_moving():
    X = np.array([[0.0, 0.1], [4.0, 5.0]])
    mean = np.array([[0.0, 0.0], [5.0, 5.0]])
    assert nearest(X, mean).tolist() == [0, 1]
    assert nearest(X, np.stack([mean, mean[::-1]])).tolist() == [0, 0]


# -- BOCD ------------------------------------------------------------------------------------------


def test_run_lengths_against_the_evidence_of_every_segmentation():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(0, 1, 5), rng.normal(6, 1, 4)])
    hazard, m, k, a, b = 0.1, 0.5, 0.05, 1.5, 0.8

    def evidence(part):
        n = len(part)
        cov = b / a * (np.eye(n) + 1 / k)
        return stats.multivariate_t.pdf(part, np.full(n, m), cov, df=2 * a)

    expected = []
    for t in range(1, len(x) + 1):
        total = np.zeros(t)
        for cuts in itertools.product((False, True), repeat=t - 1):
            places = [0, *(i + 1 for i, cut in enumerate(cuts) if cut), t]
            prior = hazard ** sum(cuts) * (1 - hazard) ** (t - 1 - sum(cuts))
            parts = [evidence(x[i:j]) for i, j in itertools.pairwise(places)]
            total[t - 1 - places[-2]] += prior * np.prod(parts)
        expected.append(total.argmax())
    found = run_lengths(x, hazard, mean=m, kappa=k, shape=a, rate=b)
    assert found.tolist() == expected
    assert found[-1] == 3  # the fourth row of the second segment


# -- the tables ------------------------------------------------------------------------------------


class Inline(Executor):
    """Run jobs as they are submitted, in this process."""

    def submit(self, function, /, *args, **more):
        job = Future()
        job.set_result(function(*args, **more))
        return job


@pytest.fixture
def inline(monkeypatch):
    for module in (engine_quality, engine_changes):
        monkeypatch.setattr(module, "workers", lambda *_: Inline())
    with threadpool_limits(1):
        yield


def cells(table):
    return [[c.strip() for c in row.strip("|").split("|")] for row in table.splitlines()]


def test_quality_table(inline, monkeypatch):
    grid = peers.grid
    make = partial(engine_quality.five, 5.0, True)
    small = {
        "low": engine_quality.Stream(make, 300, want=0.0),
        "high": engine_quality.Stream(make, 300, want=1.1, want_windows=0.5, worst=0.3),
    }
    monkeypatch.setattr(engine_quality, "STREAMS", small)
    monkeypatch.setattr(peers, "grid", lambda name, k: grid(name, k)[:1])
    table = engine_quality.table((0, 1), list(small), {}, processes=1, with_peers=True)
    header, rule, low, high = cells(table)
    assert {len(header), len(rule), len(low), len(high)} == {12}
    assert low[5] == "yes"
    assert high[5] == "**no**"
    assert high[3] == "1.1, no seed below 0.30, windows 0.50"
    assert low[2] == high[2]
    assert float(low[6].split()[0]) > 0.95  # the oracle, at R = 5


PLAIN = {
    "KMeans": {"n_clusters": 5, "seed": 0},
    "DenStream": {"n_samples_init": 50},
    "DBSTREAM": {},
}


def test_changes_table(inline):
    table = engine_changes.table((0,), (500,), {}, 0.5)
    _, _, *rows = cells(table)
    assert [row[1] for row in rows] == ["ours", *engine_changes.PEERS]
    assert len({row[2].split(" of ")[1] for row in rows}) == 1  # the same switches for all


def test_speed_of_peers_and_engine():
    batches, one_by_one, slowest = engine_speed.against_peers(200, 2)
    assert batches[4].startswith("KMeans")
    assert one_by_one[4].startswith("DenStream")
    assert slowest[1] == one_by_one[1]
    assert engine_speed.wide(100, 1)[3] in {"yes", "**no**"}


def test_endless_measures_second_and_last_by_turns():
    class Pipe:
        def send(self, value):
            self.value = value

    engine_speed._endless(pipe := Pipe(), 200)
    seconds, grown, size = pipe.value
    assert len(seconds["second"]) == len(seconds["last"]) == engine_speed.SLICES
    assert grown >= 0
    assert size > 1000


def test_the_page_has_its_parts(monkeypatch, tmp_path):
    parts = {"one": ("First", lambda quick: f"quick={quick}"), "two": ("Second", lambda quick: "")}
    monkeypatch.setattr(engine, "PARTS", parts)
    out = tmp_path / "page.md"
    result = CliRunner().invoke(engine.main, ["--quick", "--out", str(out)])
    assert result.exit_code == 0, result.output
    text = out.read_text()
    assert "### First\n\nquick=True\n\n### Second" in text
    assert "Machine: " in text
    assert result.output.strip() == text.strip()


# -- peers and options -----------------------------------------------------------------------------


def test_kmeans_is_told_the_truth_and_every_setting_runs():
    assert {s["n_clusters"] for s in peers.grid("KMeans", 20)} == {20}
    X, y = streams.five_gaussians(60, shuffled=True)
    for name in peers.PEERS:
        for settings in peers.grid(name, 5):
            labels = peers.prequential(peers.make(name, settings), peers.rows_of(X))
            assert len(labels) == len(y)


def test_tuning_takes_the_best(monkeypatch):
    X, y = streams.five_gaussians(400, 5.0, shuffled=True)
    good = {"n_clusters": 5, "halflife": 0.2, "sigma": 5.0, "seed": 0}
    bad = good | {"n_clusters": 1}
    monkeypatch.setattr(peers, "grid", lambda name, k: [bad, good, bad])
    assert peers.tune("KMeans", X, y, 5) == good


def test_seed_ranges_and_options():
    assert SeedRange().convert("0-2,7", None, None) == (0, 1, 2, 7)
    assert Options().convert('{"decay": ["exponential", 4.0]}', None, None) == {
        "decay": ("exponential", 4.0)
    }
    with pytest.raises(click.BadParameter, match="seeds like"):
        SeedRange().convert("a-b", None, None)
    with pytest.raises(click.BadParameter, match="JSON object"):
        Options().convert("[1]", None, None)


def test_an_unknown_stream_is_named():
    result = CliRunner().invoke(engine_quality.main, ["--streams", "nile"])
    assert result.exit_code == 2
    assert "no stream 'nile'" in result.output
