"""Real series with annotated changes or anomalies: one causal pass, one preset a family of data.

*Changes* (TCPD, TSSB, occupancy): covering and F1, the margin 5 rows for TCPD and 1 % of a series
elsewhere, averaged over annotators; the first row counts as a change for everybody. Ours are the
`label_changes` of settled labels, in which the rows of a window after each row have had their say.
*Anomalies*: rows for SKAB, whose first 400 rows of a run are normal and
raise no alarm; alarms against windows for NAB, whose first 15 % raise none.

Presets were compared on the even series (the first, the third ..) of each family, so the odd ones
show what they are worth. Peers have river's defaults; the anomaly scores of peers get the same
calibrated threshold as ours. Times are CPU microseconds a row.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score
from tqdm import tqdm

from benchmarks import real_data
from benchmarks.change_peers import ANOMALY, DRIFT, anomaly_alarms
from benchmarks.change_scores import covering, f1, nab, onsets, rates, window_score
from benchmarks.machine import machine, markdown, spread
from benchmarks.real_data import Series, as_table
from streamddcrp import RegimeAnomalyDetector, SeqDDCRP, WindowFeatures, label_changes

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
Segmenter = Callable[[FloatArray], tuple[list[int], IntArray | None]]

TCPD = {"preset": "short-series", "recall": False}
TSSB = {"likelihood": ("normal_gamma", 0.0, 0.05, 1.5, 1.5)}
NORMAL_ROWS = 400  # of a SKAB run
NORMAL_SHARE = 0.15  # of a NAB series


def settled_labels(model: SeqDDCRP, table: Any) -> IntArray:
    """Learn rows; the label of each when it left the window, or at the end."""
    labels = np.zeros(len(table), dtype=np.int64)
    for start in range(0, len(table), model.sweep_every):
        model.learn_many(table.slice(start, model.sweep_every))
        recent = model.recent_labels()
        labels[model.n_seen - len(recent) : model.n_seen] = recent
    return labels


def by_rows(X: FloatArray, options: dict[str, Any]) -> tuple[list[int], IntArray]:
    labels = settled_labels(SeqDDCRP(**options), as_table(X))
    return label_changes(labels).tolist(), labels


def by_windows(X: FloatArray, options: dict[str, Any]) -> tuple[list[int], IntArray]:
    """Changes and labels of rows: those of the last window whose middle is not later."""
    windows = WindowFeatures()
    features, positions = windows.step_many(X)
    labels = settled_labels(SeqDDCRP(**options), features)
    middles = positions - windows.window // 2
    found = middles[label_changes(labels)].tolist()
    at = np.searchsorted(middles, np.arange(len(X)), side="right") - 1
    return found, labels[np.maximum(at, 0)]


def on_features(peer: Callable[[FloatArray], list[int]], X: FloatArray) -> list[int]:
    """Changes that a peer finds in the features that ours gets."""
    windows = WindowFeatures()
    features, positions = windows.step_many(X)
    rows = peer(np.column_stack([column.to_numpy() for column in features.columns]))
    return [int(positions[row]) - windows.window // 2 for row in rows]


def unlabelled(find: Callable[[FloatArray], list[int]], X: FloatArray) -> tuple[list[int], None]:
    return find(X), None


def segmenters(family: str) -> dict[str, Segmenter]:
    peers: dict[str, Segmenter] = {name: partial(unlabelled, find) for name, find in DRIFT.items()}
    none: dict[str, Segmenter] = {"no change": lambda X: ([], np.zeros(len(X), dtype=np.int64))}
    if family == "tcpd":
        return none | {"SeqDDCRP": partial(by_rows, options=TCPD)} | peers
    if family == "tssb":
        names = ("river PageHinkley", "BOCD")
        featured = {
            f"{name} on WindowFeatures": partial(unlabelled, partial(on_features, DRIFT[name]))
            for name in names
        }
        return (
            none
            | {"SeqDDCRP on WindowFeatures": partial(by_windows, options=TSSB)}
            | (featured | peers)
        )
    return none | {"SeqDDCRP": partial(by_rows, options={})} | peers


def parity(values: Sequence[float]) -> str:
    """Mean over all series, and over the even and the odd ones."""
    mean = f"{np.mean(values):.3f}"
    if len(values) < 2:
        return mean
    return f"{mean} ({np.mean(values[::2]):.3f}, {np.mean(values[1::2]):.3f})"


def changes(family: str) -> str:
    """Table of the segmentations of a family."""
    data: list[Series] = getattr(real_data, family)()
    rows = []
    for name, segment in segmenters(family).items():
        cover, score, index, count, micros = [], [], [], [], []
        for series in tqdm(data, desc=f"{family}: {name}", disable=None):
            n = len(series.X)
            start = time.process_time()
            found, labels = segment(series.X)
            micros.append(1e6 * (time.process_time() - start) / n)
            margin = 5 if family == "tcpd" else n // 100
            cover.append(np.mean([covering(true, found, n) for true in series.changes]))
            score.append(f1(series.changes, found, margin))
            count.append(len(found))
            if labels is not None and series.states is not None:
                index.append(adjusted_rand_score(series.states, labels))
        rows.append(
            (
                name, parity(cover), f"{np.median(cover):.3f}", parity(score),
                parity(index) if index else "", spread(count, ".0f"), spread(micros, ".2g"),
            )
        )  # fmt: skip
    header = (
        "method", "covering: mean (even, odd series)", "median covering",
        "F1: mean (even, odd series)", "ARI of states", "changes a series", "µs a row",
    )  # fmt: skip
    return markdown(header, rows)


def our_alarms(X: FloatArray, **options: Any) -> BoolArray:
    detector = RegimeAnomalyDetector(**options)
    return np.asarray(detector.step_many(X)["alarm"].to_numpy(zero_copy_only=False))


def skab() -> str:
    """Table of alarms by rows."""
    data = real_data.skab()
    ours = partial(our_alarms, average=10, reference_after=NORMAL_ROWS)
    methods = {"no alarm": lambda X: np.zeros(len(X), dtype=np.bool_)} | {
        "RegimeAnomalyDetector, reference": ours,
        "RegimeAnomalyDetector, no reference": partial(our_alarms, average=10),
    }
    for name, make in ANOMALY.items():
        methods[name] = partial(anomaly_alarms, make, average=10, learn=NORMAL_ROWS)
    rows = []
    for name, find in methods.items():
        alarms, micros = [], []
        for series in tqdm(data, desc=f"skab: {name}", disable=None):
            start = time.process_time()
            alarm = find(series.X).copy()
            micros.append(1e6 * (time.process_time() - start) / len(alarm))
            alarm[:NORMAL_ROWS] = False
            alarms.append(alarm)
        pooled = [
            rates(
                np.concatenate([series.anomaly for series in data[part]]),
                np.concatenate(alarms[part]),
            )
            for part in (slice(None), slice(0, None, 2), slice(1, None, 2))
        ]
        cells = [f"{a:.2f} ({b:.2f}, {c:.2f})" for a, b, c in zip(*pooled, strict=True)]
        rows.append((name, *cells, spread(micros, ".2g")))
    header = ("method", "F1: all (even, odd runs)", "false alarms", "missed", "µs a row")
    return markdown(header, rows)


def nab_windows() -> str:
    """Table of alarms by windows."""
    data = real_data.nab()
    methods: dict[str, Callable[[FloatArray], list[int]]] = {
        "no alarm": lambda X: [],
        "RegimeAnomalyDetector": lambda X: onsets(our_alarms(X)),
    }
    for name, make in ANOMALY.items():
        methods[name] = lambda X, make=make: onsets(anomaly_alarms(make, X, average=1, learn=None))
    methods |= DRIFT
    rows = []
    for name, find in methods.items():
        judged, micros = [], []
        for series in tqdm(data, desc=f"nab: {name}", disable=None):
            start = time.process_time()
            alarms = find(series.X)
            micros.append(1e6 * (time.process_time() - start) / len(series.X))
            first = int(NORMAL_SHARE * len(series.X))
            judged.append(window_score(series.anomaly, [row for row in alarms if row >= first]))
        n = sum(len(series.X) for series in data)
        hit, windows, false = (
            sum(getattr(j, at) for j in judged) for at in ("hit", "windows", "false")
        )
        halves = [nab(judged[part]) for part in (slice(None), slice(0, None, 2), slice(1, None, 2))]
        rows.append(
            (
                name, "{:.1f} ({:.1f}, {:.1f})".format(*halves), f"{hit} / {windows}",
                f"{hit / max(hit + false, 1):.2f}", f"{1000 * false / n:.2f}",
                spread(micros, ".2g"),
            )
        )  # fmt: skip
    header = (
        "method", "NAB score, standard: all (even, odd series)", "windows hit",
        "alarms in windows not yet hit / alarms that count", "false alarms in 1,000 rows",
        "µs a row",
    )  # fmt: skip
    return markdown(header, rows)


FAMILIES: dict[str, Callable[[], str]] = {
    "tcpd": partial(changes, "tcpd"),
    "tssb": partial(changes, "tssb"),
    "occupancy": partial(changes, "occupancy"),
    "skab": skab,
    "nab": nab_windows,
}


@click.command("real_series", help="Changes and anomalies of real series, beside river and BOCD.")
@click.argument("families", nargs=-1, type=click.Choice(list(FAMILIES)))
def main(families: Sequence[str] = ()) -> None:
    if not real_data.DATA.is_dir():
        click.echo(f"The real series are not stored here ({real_data.DATA}): skipped.")
        return
    by_rows(np.random.default_rng(0).normal(size=(100, 1)), {})  # compiles
    for family in families or FAMILIES:
        click.echo(f"\n### {family}\n\n{FAMILIES[family]()}")
    click.echo(f"\n{machine()}")


if __name__ == "__main__":
    main()
