"""Trees of topics: held-out words, the tree itself, its growth."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from streamddcrp.models.trees.batch import fit_nested_topics
from streamddcrp.models.trees.gibbs import NestedTopicSamples, sample_nested_topics
from streamddcrp.models.trees.kernels.gain import fit_eta
from streamddcrp.models.trees.nested_topics import NestedCRPTopics
from streamddcrp.models.trees.pictures import plot_growth, plot_topic_tree
from streamddcrp.plots.figures import matplotlib
from streamddcrp.typing import FloatArray

from .data import shared_file
from .nested_draws import complete, fit_from
from .topic_corpora import TopicCorpus, bag_of_words, corpus_of_texts, newsgroups, unigram

INSTEAD = """\
AP and 20 Newsgroups, folders ap and newsgroups20, are not a part of the package. A text of your own
does as well: --data FILE, a Parquet file with a column 'text', or a text file in UTF-8 whose
documents are set apart by blank lines."""
TITLE = """\
Held-out words of trees of topics (Wang and Blei 2009, Table 1): nats a word, one half of a document
given the other, gamma 1. Unigram: the same frequencies for all documents. A sweep visits every
document once. Held-out words are scored under the eta of the prior, and under the eta that the
words of the topics show (its type-II maximum, level by level), the default of streams and fits."""
HEADER = (
    "| prior | method | nats a word, eta given | eta learned | nodes | sweeps | CPU s |",
    "| --- " * 7 + "|",
)
_RULE = "| --- " * 3 + "|"
PRIORS: dict[str, dict[str, Any]] = {
    "ours: eta 1, .2, .1; alpha 5, 2, .5": {"eta": (1.0, 0.2, 0.1), "alpha": (5.0, 2.0, 0.5)},
    "the paper's: eta 1; alpha 50, 20, 10": {"eta": 1.0, "alpha": (50.0, 20.0, 10.0)},
}


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
            text.append(f"| any | unigram | {unigram(corpus):.3f} | | | | |")
            yield text[-1]
            model = None
            for prior, options in PRIORS.items():
                for found in _methods(corpus, options, sweeps, seed):
                    label = f"{prior} | {found.method}"
                    scores.setdefault((name, label), []).append(found.score)
                    text.append(
                        f"| {label} | {found.given:.3f} | {found.score:.3f} | {found.nodes} "
                        f"| {found.sweeps} | {found.seconds:.1f} |"
                    )
                    yield text[-1]
                    model = model or found.model  # the stream's, at our prior
            if fold == 0:
                path = folder / f"ncrp-topics-{name.lower().replace(' ', '-')}"
                made += _draw(model, corpus, path)
    if folds > 1:
        text += [f"\n| {folds} folds | method | nats a word: mean (standard deviation) |", _RULE]
        text += [
            f"| {name}, {label} | {np.mean(found):.4f} ({np.std(found, ddof=1):.4f}) |"
            for (name, label), found in scores.items()
        ]
        yield from text[-2 - len(scores) :]
    table = folder / "ncrp-topics.md"
    table.write_text("\n".join([*text, ""]), encoding="utf-8")
    yield "\nWritten: " + ", ".join(map(str, [table, *made]))


class _Found(NamedTuple):
    method: str
    given: float
    score: float  # with eta learned
    nodes: int
    sweeps: int
    seconds: float
    model: Any


def _methods(
    corpus: TopicCorpus, prior: dict[str, Any], sweeps: int, seed: int
) -> Iterator[_Found]:
    """Learn the documents once, in a random order; fit all; sample; and fit from the best draw."""
    n = corpus.train.shape[0]
    documents = corpus.train[np.random.default_rng(seed).permutation(n)]
    half, few = sweeps // 2, {"n_chains": 1, "n_sweeps": 1, "burn_in": 0, "thin": 1}
    NestedCRPTopics(**prior).learn_many(documents[:1])  # these two compile
    sample_nested_topics(documents[:1], **prior, **few)

    def scored(method: str, model: Any, sweeps: int, start: float) -> _Found:
        seconds = time.process_time() - start
        score = model.complete_many(corpus.seen, corpus.held).sum() / corpus.held.sum()
        tree = model._tree
        learned, tree.learned_eta = tree.learned_eta, tree.settings.eta
        given = model.complete_many(corpus.seen, corpus.held).sum() / corpus.held.sum()
        tree.learned_eta = learned
        return _Found(method, given, score, model.n_nodes, sweeps, seconds, model)

    start = time.process_time()
    model = NestedCRPTopics(**prior)
    model.learn_many(documents)
    yield scored("stream, one pass", model, 1, start)
    start = time.process_time()
    fit = fit_nested_topics(documents, n_starts=1, **prior)
    yield scored("fit", fit.model, len(fit.bound_trace), start)
    start = time.process_time()
    draws = sample_nested_topics(
        documents, **prior, n_chains=1, n_sweeps=half, burn_in=half, thin=min(10, half), seed=seed
    )
    seconds = time.process_time() - start
    held = corpus.held.sum()
    given = complete(draws, corpus.seen, corpus.held, seed=seed).sum() / held
    draws.eta[:] = _learned(draws)
    score = complete(draws, corpus.seen, corpus.held, seed=seed).sum() / held
    yield _Found("Gibbs", given, score, int(draws.n_nodes[-1]), 2 * half, seconds, None)
    start = time.process_time() - seconds
    fit = fit_from(draws, documents, **prior)
    yield scored("fit from Gibbs", fit.model, 2 * half + len(fit.bound_trace) - 1, start)


def _learned(draws: NestedTopicSamples) -> FloatArray:
    """Return the eta that the topics of the last draw show, as a stream learns it."""
    state, eta = draws._state(len(draws) - 1), draws.eta.copy()
    live = np.flatnonzero(state.level >= 0)
    counts = np.ascontiguousarray(state.counts[:, live])
    fit_eta(
        counts, state.tokens[live], state.level[live] + 1, len(live), len(counts), 1.0, draws.eta,
        100, 1e-3, eta,
    )  # fmt: skip
    return eta


def _named(tree: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return a tree of topics over word numbers with the words' names."""
    words = [(names[int(word)], p) for word, p in tree["words"]]
    return tree | {"words": words, "children": [_named(child, names) for child in tree["children"]]}


def _draw(model: Any, corpus: TopicCorpus, path: Path) -> list[Path]:
    """Draw the tree, and how it grew."""
    made = []
    for kind, ax in (
        ("tree", plot_topic_tree(_named(model.tree(16), corpus.names))),
        ("growth", plot_growth(model.growth())),
    ):
        made.append(path.with_name(f"{path.name}-{kind}.png"))
        ax.figure.savefig(made[-1], dpi=150)
        matplotlib("pyplot").close(ax.figure)
    return made
