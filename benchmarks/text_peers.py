"""The peers of `benchmarks.text`: river's TextClust in a pass, k-means with all at hand."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from river import cluster
from sklearn.cluster import MiniBatchKMeans
from sklearn.feature_extraction.text import TfidfVectorizer
from tqdm import tqdm

from benchmarks.text_data import Corpus, IntArray
from streamddcrp.data.texts import read_texts
from streamddcrp.data.words import ENGLISH, WordTable

TOKEN = r"[a-z0-9][a-z0-9+#']*"


class Found(NamedTuple):
    """Labels (M,), M below the number of documents where time was up, and CPU seconds."""

    labels: IntArray
    seconds: float

    @property
    def speed(self) -> float:
        """Documents a second."""
        return len(self.labels) / self.seconds


class _TextClust(cluster.TextClust):
    """Reports which cluster a document joined when it was learned.

    `predict_one` before `learn_one` would cost the same search again, know no new cluster, and
    make the clusters fade with each call: worse labels at half the speed.
    """

    joined = -1

    def _get_closest_mc(self, *args: Any) -> Any:
        closest = super()._get_closest_mc(*args)
        self.joined = self._cluster_id if closest[0] is None else closest[0]
        return closest


def bags(texts: Sequence[str]) -> list[dict[str, int]]:
    """The same words as `TextStream` reads, as river wants them."""
    table, read = WordTable(), read_texts(list(texts))
    words, ends = table.read(read.data, read.offsets, listed=read.listed)
    names = np.array(table.decode(words), object)
    return [dict.fromkeys(part.tolist(), 1) for part in np.split(names, ends[1:-1])]


def textclust(rows: Sequence[dict[str, int]], radius: float, what: str, limit: float) -> Found:
    """Labels of river's TextClust, given as it learns, in at most ``limit`` CPU seconds."""
    model = _TextClust(radius=radius, real_time_fading=False)
    labels: list[int] = []
    start = time.process_time()
    for words in tqdm(rows, desc=f"{what}: TextClust, radius {radius}", leave=False):
        if words:
            model.learn_one(words)
        labels.append(model.joined if words else -1)
        if time.process_time() - start > limit:
            break
    return Found(np.array(labels, np.int64), time.process_time() - start)


def kmeans(corpus: Corpus) -> Found:
    """Labels of k-means with the true number of topics, all documents at hand."""
    start = time.process_time()
    X = TfidfVectorizer(token_pattern=TOKEN, stop_words=list(ENGLISH)).fit_transform(corpus.texts)
    k = len(np.unique(corpus.y[corpus.y >= 0]))
    labels = MiniBatchKMeans(k, n_init=3, batch_size=4096, random_state=0).fit_predict(X)
    return Found(labels.astype(np.int64), time.process_time() - start)
