"""Corpora of the experiments: documents in halves, words and posts that are left out."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from research.topic_corpora import bag_of_words, corpus_of_texts, newsgroups, split, unigram


def store(folder, X, prefix=""):
    doc, word = np.nonzero(X)
    table = {"doc": doc, "word": word, "count": X[doc, word]}
    pq.write_table(pa.table(table), folder / f"{prefix}bow.parquet")
    names = [f"w{w}" for w in range(X.shape[1])]
    pq.write_table(
        pa.table({"word": np.arange(len(names)), "token": names}), folder / "vocab.parquet"
    )


def test_halves_add_up_and_unknown_words_go():
    X = np.random.default_rng(0).poisson(1.5, (20, 8))
    X[2:, 3] = 0  # only in a test document
    corpus = split(X, list("abcdefgh"), np.array([0, 1]))
    assert corpus.names == list("abcefgh")
    whole = corpus.seen.toarray() + corpus.held.toarray()
    assert (whole == np.delete(X[:2], 3, axis=1)).all()
    assert (corpus.seen.sum(axis=1) == whole.sum(axis=1) // 2).all()
    assert (corpus.train.toarray() == np.delete(X[2:], 3, axis=1)).all()
    again = split(X, list("abcdefgh"), np.array([0, 1]))
    assert (again.seen.toarray() == corpus.seen.toarray()).all()


def test_unigram_is_that_of_the_training_documents():
    corpus = split(np.array([[0, 2], [3, 1]]), ["a", "b"], np.array([0]))
    assert unigram(corpus, eta=0.5) == pytest.approx(np.log(1.5 / 5.0))


def test_every_fifth_article_is_for_the_test(tmp_path):
    store(tmp_path, np.random.default_rng(1).poisson(2.0, (12, 6)))
    corpus = bag_of_words(tmp_path, 10)
    assert corpus.test_rows.tolist() == [0, 5]
    assert corpus.train.shape[0] == 8
    assert bag_of_words(tmp_path, 10, fold=3).test_rows.tolist() == [3, 8]


def test_posts_without_words_go_with_their_groups(tmp_path):
    X = np.zeros((300, 40), dtype=np.int64)
    X[np.arange(300), np.arange(300) % 20] = 2  # fifteen posts a word
    X[:, 20] = 1  # in all posts
    X[7, 7] = 0
    store(tmp_path, X, "train_")
    groups = [f"g{k % 20}" for k in range(300)]
    pq.write_table(pa.table({"group": groups}), tmp_path / "train_docs.parquet")
    corpus, found = newsgroups(tmp_path, 300)
    assert len(found) == 299
    assert corpus.train.shape[0] + corpus.seen.shape[0] == 299
    assert "w20" not in corpus.names
    rows = corpus.train.toarray().argmax(axis=1)
    assert [f"g{corpus.names[w][1:]}" for w in rows] == [found[r] for r in corpus.train_rows]


def test_words_of_texts(tmp_path):
    file = tmp_path / "texts.txt"
    file.write_text("\n\n".join(f"the cat{k // 2} is here{k}" for k in range(10)), encoding="utf-8")
    corpus = corpus_of_texts(file)
    assert corpus.names == ["cat0", "cat1", "cat2", "cat3", "cat4"]
