"""Trees of topics: held-out words, the tree itself, its growth."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from streamddcrp.models.trees.gibbs import sample_nested_topics
from streamddcrp.models.trees.nested_topics import NestedCRPTopics
from streamddcrp.models.trees.pictures import named, plot_growth, plot_topic_tree
from streamddcrp.plots.figures import matplotlib

from .data import shared_file
from .topic_corpora import TopicCorpus, bag_of_words, corpus_of_texts, newsgroups, unigram

INSTEAD = """\
AP and 20 Newsgroups, folders ap and newsgroups20, are not a part of the package. A text of your own
does as well: --data FILE, a Parquet file with a column 'text', or a text file in UTF-8 whose
documents are set apart by blank lines."""
TITLE = """\
Held-out words of trees of topics (Wang and Blei 2009, Table 1): nats a word, one half of a document
given the other. Unigram: the same frequencies for all documents."""
HEADER = ("| method | nats a word | nodes | documents / s |", "| --- " * 4 + "|")


def corpora(data: Path | None, fold: int) -> Iterator[tuple[str, TopicCorpus]]:
    """Yield the texts of a file, or AP and 20 Newsgroups, split in one of five ways."""
    if data is not None:
        yield data.name, corpus_of_texts(data, fold)
        return
    ap, posts = (shared_file(name, INSTEAD) for name in ("ap", "newsgroups20"))
    yield "AP", bag_of_words(ap, 1000, fold=fold)
    yield "20 Newsgroups", newsgroups(posts, fold=fold)[0]


def run(folder: Path, data: Path | None, sweeps: int, folds: int, seed: int) -> Iterator[str]:
    """Learn, and yield what was found, line by line; table and figures go to the folder.

    Every document is for testing in one of five folds. Figures are of the first.
    """
    yield TITLE
    text, made = [TITLE], []
    scores: dict[tuple[str, str], list[float]] = {}
    for fold in range(folds):
        for name, corpus in corpora(data, fold):
            n = corpus.train.shape[0]
            about = (
                f"\n{name}{f', fold {fold + 1}' if folds > 1 else ''}: {n:,} documents of "
                f"{int(corpus.train.sum()):,} words, {len(corpus.names):,} different; "
                f"{corpus.seen.shape[0]:,} to complete.\n"
            )
            text += [about, *HEADER]
            yield from text[-3:]
            model = None
            for method in (_unigram, _stream, _gibbs):
                label, score, row, model = method(corpus, sweeps, seed, model)
                scores.setdefault((name, label), []).append(score)
                text.append(row)
                yield row
            if fold == 0:
                path = folder / f"ncrp-topics-{name.lower().replace(' ', '-')}"
                made += _draw(model, corpus, path)
    if folds > 1:
        text += [f"\n| {folds} folds | nats a word: mean (standard deviation) |", "| --- | --- |"]
        text += [
            f"| {name}, {label} | {np.mean(found):.4f} ({np.std(found, ddof=1):.4f}) |"
            for (name, label), found in scores.items()
        ]
        yield from text[-2 - len(scores) :]
    table = folder / "ncrp-topics.md"
    table.write_text("\n".join([*text, ""]), encoding="utf-8")
    yield "\nWritten: " + ", ".join(map(str, [table, *made]))


def _row(method: str, score: float, nodes: int | str = "", rate: float | None = None) -> str:
    return f"| {method} | {score:.3f} | {nodes} | {'' if rate is None else f'{rate:,.0f}'} |"


def _unigram(corpus: TopicCorpus, *_: Any) -> tuple[str, float, str, Any]:
    score = unigram(corpus)
    return "unigram", score, _row("unigram", score), None


def _stream(corpus: TopicCorpus, _: int, seed: int, __: Any) -> tuple[str, float, str, Any]:
    """Learn the documents once, in a random order."""
    n = corpus.train.shape[0]
    documents = corpus.train[np.random.default_rng(seed).permutation(n)]
    NestedCRPTopics().learn_many(documents[:1])  # compiles
    model = NestedCRPTopics()
    start = time.process_time()
    model.learn_many(documents)
    seconds = time.process_time() - start
    score = float(model.complete_many(corpus.seen, corpus.held).sum() / corpus.held.sum())
    label = "stream, one pass"
    return label, score, _row(label, score, model.n_nodes, n / seconds), model


def _gibbs(corpus: TopicCorpus, sweeps: int, seed: int, model: Any) -> tuple[str, float, str, Any]:
    sample_nested_topics(corpus.train[:1], n_sweeps=1, burn_in=0, thin=1)  # compiles
    start = time.process_time()
    draws = sample_nested_topics(
        corpus.train, eta=0.1, n_sweeps=sweeps // 2, burn_in=sweeps // 2, seed=seed
    )
    seconds = time.process_time() - start
    score = float(draws.complete(corpus.seen, corpus.held, seed=seed).sum() / corpus.held.sum())
    rate = corpus.train.shape[0] * sweeps / seconds
    label = f"Gibbs, {sweeps} sweeps"
    return label, score, _row(label, score, int(draws.n_nodes[-1]), rate), model


def _draw(model: Any, corpus: TopicCorpus, path: Path) -> list[Path]:
    """Draw the tree, and how it grew."""
    made = []
    for kind, ax in (
        ("tree", plot_topic_tree(named(model.tree(16), corpus.names))),
        ("growth", plot_growth(model.growth())),
    ):
        made.append(path.with_name(f"{path.name}-{kind}.png"))
        ax.figure.savefig(made[-1], dpi=150)
        matplotlib("pyplot").close(ax.figure)
    return made
