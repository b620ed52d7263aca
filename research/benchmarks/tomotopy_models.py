"""Topic models of tomotopy on counts from a file; run by path, in an environment that has it.

``python tomotopy_models.py IN.npz OUT.npz MODEL SWEEPS SEED``: MODEL is hlda, hdp or lda and the
number of topics (lda50). IN holds the tokens of train, observed and held-out documents
(``*_words``, ``*_first``), OUT gets the scores. Apart from the other benchmarks since the only
version whose HLDA reports paths (0.13.0) needs numpy 1.
"""

from __future__ import annotations

import sys
import time
import warnings
from itertools import pairwise

import numpy as np
import tomotopy as tp

# sweeps over a new document: inference always takes the same draws, so that these are the states of
# one chain; their mean predicts better than the last alone
INFER = range(20, 70, 10)


def make(name, seed):
    """Return an untrained model."""
    if name.startswith("lda"):
        return tp.LDAModel(k=int(name[3:]), eta=0.1, seed=seed)
    if name == "hdp":
        return tp.HDPModel(eta=0.1, seed=seed)
    return tp.HLDAModel(depth=3, eta=0.1, seed=seed)


def documents(data, part):
    """Yield the words of every document, as text."""
    words, first = data[f"{part}_words"], data[f"{part}_first"]
    for a, b in pairwise(first):
        yield [str(w) for w in words[a:b].tolist()]


def word_probabilities(model, seen, name, topics, sizes):
    """Return p(word) for all words of the model, given those of a document that are seen, (2, V).

    First with the topics as they were learned; then with topics that have learned the seen words,
    too, as the sampler assigned them.
    """
    out = np.zeros((2, topics.shape[1]))
    for sweeps in INFER:
        doc = model.make_doc(seen)
        model.infer(doc, iter=sweeps, workers=1)
        weights = np.asarray(doc.get_topic_dist(), dtype=np.float64)
        mine = list(doc.path) if name == "hlda" else list(range(len(weights)))
        law = topics[mine]
        out[0] += weights @ law
        law = law * sizes[mine][:, None]
        np.add.at(law, ([mine.index(k) for k in doc.topics], list(doc.words)), 1.0)
        out[1] += (weights / law.sum(axis=1)) @ law
    return out / len(INFER)


def main():
    """Train, complete documents, and write what came out."""
    source, target, name, sweeps, seed = sys.argv[1:6]
    data = np.load(source)
    model = make(name, int(seed))
    train = [words for words in documents(data, "train") if words]
    for words in train:
        model.add_doc(words)
    start = time.process_time()
    model.train(int(sweeps), workers=1)
    seconds = time.process_time() - start
    number = np.full(int(data["n_words"]), -1)
    number[[int(word) for word in model.used_vocabs]] = np.arange(len(model.used_vocabs))
    topics = np.stack([model.get_topic_word_dist(k) for k in range(model.k)]).astype(np.float64)
    live = [model.is_live_topic(k) if name in ("hdp", "hlda") else True for k in range(model.k)]
    sizes = np.zeros(len(topics))
    counts = model.get_count_by_topics()
    sizes[: len(counts)] = counts
    sizes += topics.shape[1] * model.eta
    start, score, n = time.process_time(), np.zeros(2), 0
    for seen, held in zip(documents(data, "seen"), documents(data, "held"), strict=True):
        if not seen or not held:
            continue
        p = word_probabilities(model, seen, name, topics, sizes)
        score += np.log(p[:, number[[int(word) for word in held]]]).sum(axis=1)
        n += len(held)
    paths = [doc.path for doc in model.docs] if name == "hlda" else np.zeros((0, 3))
    np.savez(
        target, score=score / n, train_s=seconds, infer_s=time.process_time() - start,
        topics=int(np.sum(live)), paths=np.array(paths),
    )  # fmt: skip


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
