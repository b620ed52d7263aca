"""Topic trees: how well do they predict words, how fast are they learned, what do they find?

Held-out words are scored by document completion: half of a test document's tokens is seen, the
other half predicted, in nats a word; the same halves for every method. The score of a word is the
log of its mean probability: over paths for the stream, over draws for the samplers, five states of
the chain over a new document for tomotopy's. Every method's topics have learned the seen half, too;
"topics fixed" is what a peer says with topics as they were before. CPU seconds, since the machine
is shared; one thread.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from threadpoolctl import threadpool_limits

from benchmarks.machine import machine, markdown, spread
from benchmarks.streams import DATA
from research.nested_draws import complete
from research.topic_corpora import TopicCorpus, bag_of_words, newsgroups, split, unigram
from streamddcrp.models.trees.gibbs import as_corpus, sample_nested_topics
from streamddcrp.models.trees.nested_topics import NestedCRPTopics

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

SWEEPS = 100  # of the tree's samplers
PEERS = {  # name in tomotopy_models.py: name in the table, sweeps
    "hdp": ("tomotopy HDP", 300),
    **{f"lda{k}": (f"tomotopy LDA, K = {k}", 300) for k in (20, 50, 100)},
    "hlda": ("tomotopy HLDA", SWEEPS),
}
GIBBS: dict[str, Any] = {"eta": 0.1, "alpha": (5.0, 2.0, 1.0)}
AGREEMENT = (
    "NMI level 2, branches", "ARI level 2, groups", "nodes", "NMI leaf, groups", "leaves",
)  # fmt: skip
HEADER = ("method", "nats a word", "topics fixed", "topics", "documents / s", "CPU s")
SPLITS = 3  # of each bag of words
BAG_SIZE = 1000
BAGS = {"AP": "ap", "Political blogs": "poliblog", "Cora, abstracts": "cora_abstracts"}
# hierarchical bars: the paths' topics (row 0; rows 1 to 3; columns 0 to 4, row 4) and probabilities
PATHS = ((0, 1, 4), (0, 1, 5), (0, 2, 6), (0, 2, 7), (0, 3, 8), (0, 3, 9))
PATH_PROBS = (0.25, 0.2, 0.2, 0.15, 0.1, 0.1)
SHARES = (5.0, 3.0, 2.0)  # prior of a document's proportions of levels


class Found(NamedTuple):
    """Nats a held-out word, topics, passes over the documents, CPU seconds, paths (N, L) if any.

    ``fixed``: nats with topics that have not learned the seen half.
    """

    name: str
    score: float
    topics: int
    passes: float
    seconds: float
    paths: IntArray | None = None
    fixed: float = float("nan")


def lines(runs: list[list[Found]], n: int) -> list[list[str]]:
    """The table of some runs of the same methods on ``n`` documents: medians, and ranges."""
    out = []
    for some in zip(*runs, strict=True):
        seconds = float(np.median([f.seconds for f in some]))
        rates = [n * f.passes / f.seconds for f in some if f.seconds]
        out.append(
            [
                some[0].name, spread([f.score for f in some], ".3f"),
                "" if np.isnan(some[0].fixed) else spread([f.fixed for f in some], ".3f"),
                spread([f.topics for f in some]) if some[0].topics else "",
                spread(rates, ",.0f") if rates else "", f"{seconds:.1f}" if rates else "",
            ]
        )  # fmt: skip
    return out


def peer(name: str, corpus: TopicCorpus, folder: Path, seed: int = 0) -> Found:
    """Run a model of tomotopy from its own folder."""
    title, sweeps = PEERS[name]
    parts = {"train": corpus.train, "seen": corpus.seen, "held": corpus.held}
    arrays: dict[str, Any] = {"n_words": len(corpus.names)}
    for part, counts in parts.items():
        tokens = as_corpus(counts)
        arrays |= {f"{part}_words": tokens.words, f"{part}_first": tokens.first}
    script = Path(__file__).with_name("tomotopy_models.py")
    with tempfile.TemporaryDirectory() as work:
        source, target = Path(work, "in.npz"), Path(work, "out.npz")
        np.savez(source, **arrays)
        subprocess.run(
            [sys.executable, script, source, target, name, str(sweeps), str(seed)],
            check=True, env=os.environ | {"PYTHONPATH": str(folder)},
        )  # fmt: skip
        with np.load(target) as out:
            paths = out["paths"] if name == "hlda" else None
            fixed, score = out["score"].tolist()
            return Found(
                f"{title}, {sweeps} sweeps", score, int(out["topics"]), float(sweeps),
                float(out["train_s"]), paths, fixed,
            )  # fmt: skip


def gibbs(corpus: TopicCorpus, sweeps: int = SWEEPS, **options: Any) -> Found:
    """Sample the tree; half of the sweeps are burn-in."""
    start = time.process_time()
    draws = sample_nested_topics(
        corpus.train,
        n_chains=1,
        n_sweeps=sweeps // 2,
        burn_in=sweeps // 2,
        thin=10,
        seed=0,
        **options,
    )
    seconds = time.process_time() - start
    score = complete(draws, corpus.seen, corpus.held, seed=0).sum() / corpus.held.sum()
    path = draws.paths[-1].astype(np.int64)
    n = int(draws.n_nodes[-1])
    return Found(f"nested CRP, Gibbs, {sweeps} sweeps", score, n, sweeps, seconds, path)


def stream(corpus: TopicCorpus, seed: int = 0) -> Found:
    """Learn the documents one after the other, in a random order."""
    order = np.random.default_rng(seed).permutation(corpus.train.shape[0])
    documents = corpus.train[order]
    model = NestedCRPTopics()
    start = time.process_time()
    model.learn_many(documents)
    seconds = time.process_time() - start
    score = model.complete_many(corpus.seen, corpus.held).sum() / corpus.held.sum()
    paths = model.paths_many(corpus.train)
    return Found("nested CRP, stream, one pass", score, model.n_nodes, 1.0, seconds, paths)


def corpus_table(corpus: TopicCorpus, tomotopy: Path | None) -> list[Found]:
    """Run every method on one corpus."""
    found = [Found("unigram", unigram(corpus), 0, 0.0, 0.0)]
    if tomotopy is not None:
        found += [peer(name, corpus, tomotopy) for name in PEERS]
    return [*found, gibbs(corpus, **GIBBS), stream(corpus)]


def agreement(paths: IntArray, groups: list[str]) -> list[str]:
    """Agreement of level-2 nodes and leaves with the 7 branches and 20 groups of newsgroups."""
    branches = [group.split(".")[0] for group in groups]
    second, leaf = (
        np.unique(nodes, axis=0, return_inverse=True)[1].ravel()
        for nodes in (paths[:, 1:2], paths[:, 1:])
    )
    return [
        f"{normalized_mutual_info_score(branches, second):.3f}",
        f"{adjusted_rand_score(groups, second):.3f}", f"{second.max() + 1}",
        f"{normalized_mutual_info_score(groups, leaf):.3f}", f"{leaf.max() + 1}",
    ]  # fmt: skip


def bar_topics() -> FloatArray:
    """The ten bars' probabilities of words, (10, 25)."""
    grid = np.arange(25).reshape(5, 5)
    cells = [*grid[:4], *grid.T, grid[4]]
    return np.array([np.bincount(cell, minlength=25) / 5.0 for cell in cells])


def bars_truth(corpus: TopicCorpus, draws: int = 4000) -> float:
    """Nats a held-out word under the parameters that made the bars, scored as the stream is.

    log sum_k p(path k | seen words) prod_j E[p(w_j) | seen words, k], proportions by sampling.
    """
    theta = np.random.default_rng(0).dirichlet(SHARES, draws)
    laws = [theta @ bar_topics()[list(path)] for path in PATHS]
    seen = np.stack([corpus.seen @ np.log(np.maximum(law, 1e-300)).T for law in laws])
    path = logsumexp(seen, axis=2) + np.log(PATH_PROBS)[:, None]
    path -= logsumexp(path, axis=0)
    share = np.exp(seen - logsumexp(seen, axis=2, keepdims=True))
    for k, law in enumerate(laws):
        path[k] += corpus.held.multiply(np.log(np.maximum(share[k] @ law, 1e-300))).sum(axis=1)
    return float(logsumexp(path, axis=0).sum() / corpus.held.sum())


def bars(n: int, seed: int) -> tuple[IntArray, IntArray]:
    """Documents of 60 to 120 words from a tree of ten bars on a 5 x 5 grid, and their paths."""
    topics, rng = bar_topics(), np.random.default_rng(seed)
    X, y = np.zeros((n, 25), np.int64), np.zeros(n, np.int64)
    for d in range(n):
        y[d] = rng.choice(6, p=PATH_PROBS)
        theta = rng.dirichlet(SHARES)
        z = rng.multinomial(rng.integers(60, 121), theta)
        X[d] = sum(rng.multinomial(z[l], topics[PATHS[y[d]][l]]) for l in range(3))
    return X, y


def bars_corpora(n_seeds: int) -> list[tuple[TopicCorpus, IntArray]]:
    """The same bars in so many orders; 300 others to complete."""
    X, y = bars(1000, 0)
    test, _ = bars(300, 99)
    names = [str(w) for w in range(25)]
    out = []
    for seed in range(n_seeds):
        order = np.random.default_rng(seed).permutation(1000)
        counts = np.concatenate([X[order], test])
        out.append((split(counts, names, np.arange(1000, 1300)), y[order]))
    return out


def bars_line(name: str, found: list[Found], y: list[IntArray]) -> list[str]:
    """One row of the table: medians over seeds, with smallest and largest."""
    ari = []
    for f, truth in zip(found, y, strict=True):
        assert f.paths is not None
        _, leaf = np.unique(f.paths, axis=0, return_inverse=True)
        ari.append(float(adjusted_rand_score(truth, leaf.ravel())))
    rates = [1000 * f.passes / f.seconds for f in found]
    return [
        name, spread(ari), spread([f.score for f in found], ".4f"),
        spread([f.topics for f in found]), f"{np.median(rates):,.0f}",
    ]  # fmt: skip


@click.command("nested_topics")
@click.option(
    "--data", type=click.Path(path_type=Path), default=DATA, help="Folder of shared data."
)
@click.option(
    "--tomotopy", type=click.Path(path_type=Path),
    help="Folder with tomotopy 0.13.0 and numpy 1: pip install --target FOLDER tomotopy==0.13.0 "
    "'numpy<2'.",
)  # fmt: skip
@click.option("--posts", default=1500, show_default=True, help="Of 20 newsgroups.")
@click.option("--seeds", default=10, show_default=True, help="Of the bars.")
def main(data: Path, tomotopy: Path | None, posts: int, seeds: int) -> None:
    """Trees of topics beside tomotopy's LDA, HLDA and HDP."""
    click.echo(machine())
    if tomotopy is None:
        click.echo("\ntomotopy's models are skipped: --tomotopy was not given.")
    warm = bars_corpora(1)[0][0]
    gibbs(warm, sweeps=20)
    stream(warm)
    with threadpool_limits(1):
        for name, folder in BAGS.items():
            if not (data / folder).exists():
                continue
            splits = [bag_of_words(data / folder, BAG_SIZE, seed) for seed in range(SPLITS)]
            runs = [corpus_table(corpus, tomotopy) for corpus in splits]
            click.echo(f"\n{_about(name, splits[0])}; {SPLITS} splits at random\n")
            click.echo(markdown(HEADER, lines(runs, splits[0].train.shape[0])))
        if (data / "newsgroups20").exists():
            corpus, groups = newsgroups(data / "newsgroups20", posts)
            found = corpus_table(corpus, tomotopy)
            mine = [groups[row] for row in corpus.train_rows.tolist()]
            rows = [
                row + ([""] * len(AGREEMENT) if f.paths is None else agreement(f.paths, mine))
                for row, f in zip(lines([found], len(mine)), found, strict=True)
            ]
            click.echo(f"\n{_about('20 Newsgroups', corpus)}\n")
            click.echo(markdown((*HEADER, *AGREEMENT), rows))
        corpora = bars_corpora(seeds)
        y = [truth for _, truth in corpora]
        true = f"{np.median([bars_truth(corpus) for corpus, _ in corpora]):.4f}"
        rows = [["true parameters", "", true, "10", ""]]
        rows += [
            bars_line(name, [method(corpus) for corpus, _ in corpora], y)
            for name, method in (
                ("Gibbs, 100 sweeps", lambda corpus: gibbs(corpus, eta=0.1, alpha=(5.0, 3.0, 2.0))),
                ("stream, one pass", stream),
            )
        ]
        click.echo(f"\nHierarchical bars, {seeds} orders of 1,000 documents\n")
        click.echo(markdown(("method", "ARI", "nats a word", "nodes", "documents / s"), rows))


def _about(name: str, corpus: TopicCorpus) -> str:
    n, m = corpus.train.shape[0], corpus.seen.shape[0]
    return (
        f"{name}: {n:,} documents, {int(corpus.train.sum()):,} tokens, {len(corpus.names):,} "
        f"words; {m:,} to complete"
    )


if __name__ == "__main__":
    main()
