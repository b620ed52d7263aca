"""Real series with annotated changes or anomalies: one causal pass, one preset a family of data.

*Changes* (TCPD, TSSB, occupancy): covering and F1, the margin 5 rows for TCPD and 1 % of a series
elsewhere, averaged over annotators; the first row counts as a change for everybody. Ours are the
`label_changes` of settled labels, in which about a window of later rows have had their say; of
TSSB in rows of `WindowFeatures`, with the period estimated. Changes in windows, of all methods,
then go through `relocate_changes`. *Anomalies*: rows for SKAB, whose first 400 rows of a run are
normal and raise no alarm; alarms against windows for NAB, whose first 15 % raise none.

Options were chosen by the even series (the first, the third ..) of each family. The odd ones were
in view, so they are a check and no blind test. Drift detectors and BOCD have their defaults. The
anomaly scores of peers go through our `Alarm` at that of seven rates which is best for them by the
labels.
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
from benchmarks.change_peers import ANOMALY, DRIFT, anomaly_scores
from benchmarks.change_scores import Rates, Windows, covering, f1, nab, onsets, rates, window_score
from benchmarks.machine import machine, markdown, spread
from benchmarks.real_data import Series, as_table
from streamddcrp import (
    Alarm,
    RegimeAnomalyDetector,
    SeqDDCRP,
    WindowFeatures,
    label_changes,
    relocate_changes,
)

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
Segmenter = Callable[[FloatArray], tuple[list[int], IntArray | None]]

SHORT: dict[str, Any] = {"preset": "short-series"}
OURS: dict[str, dict[str, dict[str, Any]]] = {  # options of `SeqDDCRP`
    "tcpd": {"SeqDDCRP, short-series": SHORT, "SeqDDCRP": {}},
    "tssb": {"SeqDDCRP on WindowFeatures": {"likelihood": ("normal_gamma", 0.0, 0.05, 1.5, 1.5)}},
    "occupancy": {"SeqDDCRP, short-series": SHORT, "SeqDDCRP": {}},
}  # fmt: skip
NORMAL_ROWS = 400  # of a SKAB run
SKAB: dict[str, dict[str, Any]] = {  # the highest F1 with at most 10 % false alarms
    "levels": {"rate": 0.001, "average": 20},
    "autoregressions": {"rate": 0.005, "average": 10, "likelihood": ("autoregression", 1)},
}
PEER_AVERAGE = 10
PEER_RATES = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05)
NORMAL_SHARE = 0.15  # of a NAB series


def settled_labels(model: SeqDDCRP, table: Any, t: FloatArray | None = None) -> IntArray:
    """Learn rows; the label of each when it left the window, or at the end."""
    labels = np.zeros(len(table), dtype=np.int64)
    for start in range(0, len(table), model.sweep_every):
        times = None if t is None else t[start : start + model.sweep_every]
        model.learn_many(table.slice(start, model.sweep_every), t=times)
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
    found = relocate_changes(middles[label_changes(labels)], X, windows.window).tolist()
    at = np.searchsorted(middles, np.arange(len(X)), side="right") - 1
    return found, labels[np.maximum(at, 0)]


def on_features(peer: Callable[[FloatArray], list[int]], X: FloatArray) -> list[int]:
    """Changes that a peer finds in the features that ours gets."""
    windows = WindowFeatures()
    features, positions = windows.step_many(X)
    rows = peer(np.column_stack([column.to_numpy() for column in features.columns]))
    middles = positions - windows.window // 2
    return relocate_changes(middles[rows], X, windows.window).tolist()


def unlabelled(find: Callable[[FloatArray], list[int]], X: FloatArray) -> tuple[list[int], None]:
    return find(X), None


def segmenters(family: str) -> dict[str, Segmenter]:
    learn = by_windows if family == "tssb" else by_rows
    found: dict[str, Segmenter] = {"no change": lambda X: ([], np.zeros(len(X), dtype=np.int64))}
    found |= {name: partial(learn, options=options) for name, options in OURS[family].items()}
    if family == "tssb":
        for name in ("river PageHinkley", "BOCD"):
            find = partial(on_features, DRIFT[name])
            found[f"{name} on WindowFeatures"] = partial(unlabelled, find)
    return found | {name: partial(unlabelled, find) for name, find in DRIFT.items()}


def halves(score: Callable[[slice], float], form: str) -> str:
    """A score of all series, and of the even and the odd ones."""
    whole, even, odd = (score(part) for part in (slice(None), slice(0, None, 2), slice(1, None, 2)))
    return f"{whole:{form}} ({even:{form}}, {odd:{form}})"


def mean(values: Sequence[float]) -> str:
    if len(values) == 1:
        return f"{values[0]:.3f}"
    return halves(lambda part: float(np.mean(values[part])), ".3f")


def timed(find: Callable[[FloatArray], Any], data: Sequence[Series], name: str) -> tuple[Any, str]:
    """What a method finds in each series, and its microseconds a row."""
    found, micros = [], []
    for series in tqdm(data, desc=name, disable=None):
        start = time.process_time()
        found.append(find(series.X))
        micros.append(1e6 * (time.process_time() - start) / len(series.X))
    return found, spread(micros, ".2g")


def changes(family: str) -> str:
    """Table of the segmentations of a family."""
    data: list[Series] = getattr(real_data, family)()
    rows = []
    for name, segment in segmenters(family).items():
        cover, score, index, count = [], [], [], []
        results, micros = timed(segment, data, f"{family}: {name}")
        for series, (found, labels) in zip(data, results, strict=True):
            n = len(series.X)
            margin = 5 if family == "tcpd" else n // 100
            cover.append(np.mean([covering(true, found, n) for true in series.changes]))
            score.append(f1(series.changes, found, margin))
            count.append(len(found))
            if labels is not None and series.states is not None:
                index.append(adjusted_rand_score(series.states, labels))
        rows.append(
            (
                name, mean(cover), f"{np.median(cover):.3f}", mean(score),
                mean(index) if index else "", spread(count, ".0f"), micros,
            )
        )  # fmt: skip
    header = (
        "method", "covering: mean (even, odd series)", "median covering",
        "F1: mean (even, odd series)", "ARI of states", "changes a series", "µs a row",
    )  # fmt: skip
    return markdown(header, rows)


def our_alarms(
    X: FloatArray, likelihood: Any = None, column: str = "alarm", **options: Any
) -> BoolArray:
    model = SeqDDCRP(likelihood=likelihood, temper=False) if likelihood else None
    detector = RegimeAnomalyDetector(model, **options)
    return np.asarray(detector.step_many(X)[column].to_numpy(zero_copy_only=False))


def skab() -> str:
    """Table of alarms by rows."""
    *runs, normal = real_data.skab()

    def judge(alarms: Sequence[BoolArray], part: slice) -> Rates:
        true = np.concatenate([run.anomaly for run in runs[part]])
        late = [alarm & (np.arange(len(alarm)) >= NORMAL_ROWS) for alarm in alarms[:-1][part]]
        return rates(true, np.concatenate(late))

    methods = {
        "no alarm": [timed(lambda X: np.zeros(len(X), dtype=np.bool_), [*runs, normal], "none")]
    }
    for name, options in SKAB.items():
        ours = partial(our_alarms, **options, reference_after=NORMAL_ROWS)
        methods[f"RegimeAnomalyDetector, {name}"] = [timed(ours, [*runs, normal], name)]
    ours = partial(our_alarms, **SKAB["levels"])
    methods["RegimeAnomalyDetector, no reference"] = [timed(ours, [*runs, normal], "none")]
    for name, make in ANOMALY.items():
        scores, micros = timed(
            partial(anomaly_scores, make, learn=NORMAL_ROWS), [*runs, normal], name
        )
        methods[name] = [
            ([Alarm(rate, PEER_AVERAGE).step_many(score).alarm for score in scores], micros)
            for rate in PEER_RATES
        ]
    rows = []
    for name, tries in methods.items():
        alarms, micros = max(tries, key=lambda tried: judge(tried[0], slice(None)).f1)
        cells = [
            halves(lambda part, at=at, alarms=alarms: getattr(judge(alarms, part), at), ".2f")
            for at in Rates._fields
        ]
        rows.append((name, *cells, f"{alarms[-1][NORMAL_ROWS:].mean():.2f}", micros))
    header = (
        "method", "F1: all (even, odd runs)", "false alarms", "missed",
        "false alarms in the run without anomalies", "µs a row",
    )  # fmt: skip
    return markdown(header, rows)


def nab_windows() -> str:
    """Table of alarms by windows."""
    data = real_data.nab()

    def judge(alarms: Sequence[list[int]]) -> list[Windows]:
        return [
            window_score(series.anomaly, [a for a in rows if a >= NORMAL_SHARE * len(series.X)])
            for series, rows in zip(data, alarms, strict=True)
        ]

    methods: dict[str, list[tuple[list[list[int]], str]]] = {
        "no alarm": [timed(lambda X: [], data, "none")],
        "RegimeAnomalyDetector": [
            timed(lambda X: onsets(our_alarms(X, column="began")), data, "ours")
        ],
    }
    for name, make in ANOMALY.items():
        scores, micros = timed(partial(anomaly_scores, make), data, name)
        methods[name] = [
            ([onsets(Alarm(rate).step_many(score).began) for score in scores], micros)
            for rate in PEER_RATES
        ]
    methods |= {name: [timed(find, data, name)] for name, find in DRIFT.items()}
    rows = []
    for name, tries in methods.items():
        judged, micros = max(((judge(a), m) for a, m in tries), key=lambda tried: nab(tried[0]))
        hit, windows, false, _ = np.sum(judged, axis=0)
        rows.append(
            (
                name, halves(lambda part, judged=judged: nab(judged[part]), ".1f"),
                f"{hit:.0f} / {windows:.0f}", f"{hit / max(hit + false, 1):.2f}",
                f"{1000 * false / sum(len(series.X) for series in data):.2f}", micros,
            )
        )  # fmt: skip
    header = (
        "method", "NAB score, standard: all (even, odd series)", "windows hit", "precision",
        "false alarms in 1,000 rows", "µs a row",
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
