"""What the benchmark of texts says of its peers: labels while learning, and where they were cut."""

import numpy as np
import pytest

pytest.importorskip("sklearn")

from benchmarks.text import agreement, described, sizes
from benchmarks.text_data import Corpus
from benchmarks.text_peers import Found, bags, kmeans, textclust

TEXTS = [
    ("oil price opec barrel" if i % 2 else "cup final goal team") + f" w{i}" for i in range(60)
]
CORPUS = Corpus(TEXTS, np.arange(60) % 2, 500)


def test_textclust_is_labelled_as_it_learns():
    found = textclust(bags(TEXTS), 0.7, "x", 60.0)
    assert described(CORPUS, found) == "1.000 / 1.000; 2 (2)"
    assert len(kmeans(CORPUS).labels) == 60


def test_a_peer_that_is_cut_off_says_where():
    found = textclust(bags(TEXTS), 0.7, "x", 0.0)
    assert len(found.labels) == 1
    assert described(CORPUS, found).endswith("; 1 (0), cut off after 1")


def test_documents_without_a_topic_are_not_judged():
    y, label = np.array([0, -1, 1, 1]), np.array([5, 5, 7, 7])
    assert agreement(y, label) == (pytest.approx(1.0), pytest.approx(1.0))
    assert sizes(label) == "2 (0)"
    assert described(Corpus(["a"] * 4, y, 1), Found(label, 1.0)) == "1.000 / 1.000; 2 (0)"


def test_words_are_those_of_the_stream():
    assert bags(["The Oil, oil price!", ""]) == [{"oil": 1, "price": 1}, {}]
