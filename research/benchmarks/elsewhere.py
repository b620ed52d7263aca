"""Other packages on the same data, for the page that compares (`docs/comparison.md`).

Each method runs in a process of its own, so that its peak memory is its own; a package that is not
installed is left out, with a line that says so. Every peer is favoured where a choice is open.

*points*: the label of each row before it is learned. MiniBatchKMeans and MOA's CluStream know the
true number of clusters; MOA's DenStream has the best of nine settings by the labels of one further
seed. Both of MOA give centres and no ids: the centres are read every 50 rows and matched with those
before. *series*: the odd series of TSSB. ClaSS has windows of 10,000 rows, or a whole series, and a
tenth of the series to find its width; FLUSS has the true number of segments, and ruptures (Binseg)
the true number and the features of ours, so both see the series whole. *days*: hourly series of 84
days with five anomalies of 6 hours in the last 56, hit if an alarm falls into one or the 6 hours
after. Ours has a rate of 0.01; Prophet sees the series whole, and a row outside its 99 % interval
is anomalous. *texts*: the first 4,000 documents of corpora with topics, in one order. BERTopic and
`EmbeddingStream` get the same vectors, 100 dimensions of a singular value decomposition, since an
encoder would have to be downloaded. BERTopic has all texts at once, and its outliers are put into
the nearest topic; online it has blocks of 500 and the true number of topics, and labels a block
after it has learned it. Ours are final labels.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from sklearn.cluster import MiniBatchKMeans
from sklearn.decomposition import IncrementalPCA, TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from benchmarks import real_data, streams
from benchmarks.change_scores import covering, f1
from benchmarks.machine import machine, markdown, peak_mebibytes, spread
from benchmarks.real_series import OURS, by_windows
from benchmarks.text_data import CORPORA, first
from streamddcrp import (
    EmbeddingStream,
    RegimeAnomalyDetector,
    SeqDDCRP,
    TextStream,
    WindowFeatures,
    relocate_changes,
)

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Scores = dict[str, list[float]]

BLOCK = 50  # rows between two readings of centres
SEEDS = range(6200, 6205)
TUNING = 6199  # the seed by whose labels a peer's settings are chosen
N_CLUSTERS = 5
DAY, DAYS, LONG = 24, 84, 6  # rows; days; hours of an anomaly
POINTS: dict[str, Callable[[int], tuple[Any, ...]]] = {
    "regimes, 2,000": lambda seed: streams.rare_switches(2000, seed),
    "five Gaussians in order, 2,000": lambda seed: streams.five_gaussians(2000, seed=seed),
    "the same, shuffled": lambda seed: streams.five_gaussians(2000, seed=seed, shuffled=True),
}  # fmt: skip


def our_labels(X: FloatArray) -> IntArray:
    return np.asarray(SeqDDCRP().step_many(X)["label"].to_numpy())


def mini_batch_kmeans(X: FloatArray) -> IntArray:
    model = MiniBatchKMeans(N_CLUSTERS, n_init=3, random_state=0).partial_fit(X[:BLOCK])
    found = [model.predict(X[:BLOCK])]
    for a in range(BLOCK, len(X), BLOCK):
        found.append(model.predict(X[a : a + BLOCK]))
        model.partial_fit(X[a : a + BLOCK])
    return np.concatenate(found).astype(np.int64)


def moa(name: str, X: FloatArray, **options: Any) -> IntArray:
    """Labels by the nearest of the centres, read every block and matched with those before."""
    from capymoa import cluster
    from capymoa.stream import NumpyStream

    stream = NumpyStream(X, np.zeros(len(X), np.int64), target_type="categorical")
    model = getattr(cluster, name)(stream.get_schema(), **options)
    centres, ids, n_ids = X[:1], np.zeros(1, np.int64), 1
    found = np.zeros(len(X), np.int64)
    for i, x in enumerate(X):
        if i % BLOCK == 0 and i:
            now = np.array(model._get_clusters_centers()).reshape(-1, X.shape[1])
            if len(now):
                old, new = linear_sum_assignment(cdist(centres, now))
                ids_now = np.arange(n_ids, n_ids + len(now))
                ids_now[new] = ids[old]
                n_ids, centres, ids = n_ids + len(now), now, ids_now
        found[i] = ids[np.square(centres - x).sum(axis=1).argmin()]
        model.train(stream.next_instance())
    return found


def clustream(X: FloatArray) -> IntArray:
    return moa("Clustream_with_kmeans", X, k_option=N_CLUSTERS)


def denstreams() -> Iterator[Callable[[FloatArray], IntArray]]:
    for epsilon in (0.25, 0.5, 1.0):  # 1 is the largest that it takes
        for fade in (0.001, 0.01, 0.1):
            yield lambda X, e=epsilon, f=fade: moa(
                "Denstream_with_dbscan", X, epsilon=e, lambda_option=f, init_points=BLOCK, speed=1
            )  # fmt: skip


def of_points(name: str, on: str) -> Scores:
    methods = {"SeqDDCRP": [our_labels], "scikit-learn MiniBatchKMeans": [mini_batch_kmeans],
               "MOA CluStream": [clustream], "MOA DenStream": [*denstreams()]}  # fmt: skip
    X, y = POINTS[on](TUNING)[:2]
    label = max(methods[name], key=lambda find: adjusted_rand_score(y, find(X)))
    scores: Scores = {"ARI": [], "µs a row": []}
    for X, y in (POINTS[on](seed)[:2] for seed in SEEDS):
        began = time.process_time()
        labels = label(X)
        scores["µs a row"].append(1e6 * (time.process_time() - began) / len(X))
        scores["ARI"].append(adjusted_rand_score(y, labels))
    return scores


def our_changes(series: real_data.Series) -> list[int]:
    (options,) = OURS["tssb"].values()
    return by_windows(series.X, options)[0]


def class_changes(series: real_data.Series) -> list[int]:
    from claspy.streaming.segmentation import StreamingClaSPSegmentation

    x = series.X[:, 0]
    model = StreamingClaSPSegmentation(min(10_000, len(x)), len(x) // 10, log_cps=True)
    for value in x:
        model.update(value)
    return sorted({int(row) for row in model.change_points})


def fluss_changes(series: real_data.Series) -> list[int]:
    import stumpy

    x, width = series.X[:, 0].astype(np.float64), WindowFeatures()
    width.step_many(series.X)
    nearest = stumpy.stump(x, m=width.window)[:, 1].astype(np.int64)
    n_segments = len(series.changes[0]) + 1
    return [int(row) for row in stumpy.fluss(nearest, L=width.window, n_regimes=n_segments)[1]]


def ruptures_changes(series: real_data.Series) -> list[int]:
    import ruptures

    windows = WindowFeatures()
    features, positions = windows.step_many(series.X)
    rows = np.column_stack([column.to_numpy() for column in features.columns])
    found = ruptures.Binseg("l2", jump=1).fit_predict(rows, n_bkps=len(series.changes[0]))[:-1]
    middles = positions - windows.window // 2
    return [int(row) for row in relocate_changes(middles[found], series.X, windows.window)]


def of_series(name: str, _: str) -> Scores:
    find = {"SeqDDCRP on WindowFeatures": our_changes, "claspy ClaSS": class_changes,
            "stumpy FLUSS": fluss_changes, "ruptures Binseg": ruptures_changes}[name]  # fmt: skip
    odd = real_data.tssb()[1::2]
    find(odd[0])  # compiles
    scores: Scores = {"covering": [], "F1": [], "µs a row": []}
    for series in odd:
        n, began = len(series.X), time.process_time()
        found = find(series)
        scores["µs a row"].append(1e6 * (time.process_time() - began) / n)
        scores["covering"].append(covering(series.changes[0], found, n))
        scores["F1"].append(f1(series.changes, found, n // 100))
    return scores


def hourly(seed: int) -> tuple[FloatArray, NDArray[np.datetime64], list[int]]:
    """A day, a quieter week end, correlated noise of deviation 1; and the starts of anomalies."""
    rng = np.random.default_rng(seed)
    t = np.arange(DAYS * DAY)
    day = 4.0 * np.sin(2.0 * np.pi * t / DAY) + 2.0 * np.cos(4.0 * np.pi * t / DAY)
    x = 20.0 + day * np.where(t // DAY % 7 >= 5, 0.4, 1.0)
    noise = rng.normal(size=len(t))
    for i in t[1:]:
        noise[i] = 0.5 * noise[i - 1] + np.sqrt(0.75) * noise[i]
    at = np.sort(rng.choice(np.arange(28 * DAY, len(t) - DAY, 2 * DAY), 5, replace=False))
    at += rng.integers(0, DAY, 5)
    for start in at:
        noise[start : start + LONG] += rng.choice([-5.0, 5.0])
    return x + noise, np.datetime64("2024-01-01") + t.astype("timedelta64[h]"), at.tolist()


def our_alarms(x: FloatArray, times: NDArray[np.datetime64]) -> IntArray:
    out = RegimeAnomalyDetector(rate=0.01).step_many(x[:, None], times)
    return np.flatnonzero(out["alarm"].to_numpy(zero_copy_only=False))


def prophet_alarms(x: FloatArray, times: NDArray[np.datetime64]) -> IntArray:
    import logging

    import pandas as pd
    from prophet import Prophet

    logging.getLogger("cmdstanpy").setLevel(logging.ERROR)
    table = pd.DataFrame({"ds": times.astype("datetime64[ns]"), "y": x})
    band = Prophet(interval_width=0.99).fit(table).predict(table)
    return np.flatnonzero((x < band["yhat_lower"]) | (x > band["yhat_upper"]))


def of_days(name: str, _: str) -> Scores:
    find = {"RegimeAnomalyDetector": our_alarms, "Prophet": prophet_alarms}[name]
    find(*hourly(TUNING)[:2])  # compiles
    scores: Scores = {"anomalies hit, of 5": [], "other alarms": [], "µs a row": []}
    for x, times, at in map(hourly, SEEDS):
        began = time.process_time()
        rows = find(x, times)
        scores["µs a row"].append(1e6 * (time.process_time() - began) / len(x))
        rows = rows[rows >= 28 * DAY]
        starts = rows[np.append(True, np.diff(rows) > 1)] if len(rows) else rows
        near = [(starts >= a) & (starts < a + 2 * LONG) for a in at]
        scores["anomalies hit, of 5"].append(sum(part.any() for part in near))
        scores["other alarms"].append(len(starts) - int(np.any(near, axis=0).sum()))
    return scores


def our_stories(texts: list[str], X: FloatArray, _: int, *, words: bool) -> IntArray:
    model = TextStream() if words else EmbeddingStream()
    model.learn_many(texts if words else X)
    return np.asarray(model.final_labels(window=True)["label"].to_numpy())


def bertopic(texts: list[str], X: FloatArray, n_topics: int, *, online: bool) -> IntArray:
    from bertopic import BERTopic
    from bertopic.vectorizers import OnlineCountVectorizer
    from umap import UMAP

    if not online:
        plane = UMAP(n_components=5, min_dist=0.0, metric="cosine", random_state=0)
        model = BERTopic(umap_model=plane)  # its default, with a seed
        found, _ = model.fit_transform(texts, X)
        if -1 in found:
            found = model.reduce_outliers(texts, found, strategy="embeddings", embeddings=X)
        return np.array(found)
    model = BERTopic(
        umap_model=IncrementalPCA(5),
        hdbscan_model=MiniBatchKMeans(n_topics, n_init=3, random_state=0),
        vectorizer_model=OnlineCountVectorizer(decay=0.01),
    )
    labels: list[int] = []
    for a in range(0, len(texts), 500):
        model.partial_fit(texts[a : a + 500], X[a : a + 500])
        labels += model.topics_
    return np.array(labels)


STORIES: dict[str, Callable[..., IntArray]] = {
    "TextStream, words": partial(our_stories, words=True),
    "EmbeddingStream, vectors": partial(our_stories, words=False),
    "BERTopic, all texts at once": partial(bertopic, online=False),
    "BERTopic, online, true number": partial(bertopic, online=True),
}


def of_stories(name: str, on: str) -> Scores:
    texts, y, _ = first(CORPORA[on](streams.DATA), 4_000)
    X = TfidfVectorizer(stop_words="english").fit_transform(texts)
    X = TruncatedSVD(100, random_state=0).fit_transform(X)
    began = time.process_time()
    labels = STORIES[name](texts, X, len(set(y.tolist())))
    seconds = time.process_time() - began
    kept = y >= 0
    return {
        "NMI": [normalized_mutual_info_score(y[kept], labels[kept])],
        "ARI": [adjusted_rand_score(y[kept], labels[kept])],
        "topics": [len(set(labels.tolist()))],
        "µs a text": [1e6 * seconds / len(y)],
    }


KINDS: dict[str, tuple[Callable[[str, str], Scores], list[str], dict[str, str]]] = {
    "points": (of_points, [*POINTS], {
        "SeqDDCRP": "", "scikit-learn MiniBatchKMeans": "", "MOA CluStream": "capymoa",
        "MOA DenStream": "capymoa"}),
    "series": (of_series, ["TSSB, odd series"], {
        "SeqDDCRP on WindowFeatures": "", "claspy ClaSS": "claspy", "stumpy FLUSS": "stumpy",
        "ruptures Binseg": "ruptures"}),
    "days": (of_days, ["hourly, 84 days"], {"RegimeAnomalyDetector": "", "Prophet": "prophet"}),
    "texts": (of_stories, ["tweet2472", "StackOverflow titles", "Tweets-T"], {
        name: "bertopic" if name.startswith("BERTopic") else "" for name in STORIES}),
}  # fmt: skip


def _alone(kind: str, name: str, on: str, sender: Any) -> None:
    scores = KINDS[kind][0](name, on)
    sender.send(scores | {"peak memory, MB": [peak_mebibytes() * 1.048576]})


@click.command()
@click.argument("kinds", nargs=-1, type=click.Choice([*KINDS]))
def main(kinds: tuple[str, ...]) -> None:
    """Compare with packages that nothing else here needs: pip install capymoa claspy stumpy .."""
    context = multiprocessing.get_context("spawn")
    for kind in kinds or KINDS:
        _, data, methods = KINDS[kind]
        for on in data:
            rows: dict[str, Scores] = {}
            for name, package in methods.items():
                if package and importlib.util.find_spec(package) is None:
                    click.echo(f"{name} is left out: pip install {package}", err=True)
                    continue
                receiver, sender = context.Pipe(duplex=False)
                process = context.Process(target=_alone, args=(kind, name, on, sender))
                process.start()
                sender.close()
                rows[name] = receiver.recv()
                process.join()
            header = ["method", *next(iter(rows.values()))]
            table = [[name, *map(spread, scores.values())] for name, scores in rows.items()]
            click.echo(f"\n### {on}\n\n{markdown(header, table)}")
    click.echo(f"\n{machine()}")


if __name__ == "__main__":
    main()
