"""How well are the topics of short texts found in one pass, and how fast, from raw strings?

One default setting for all corpora. Two labels of `TextStream` are judged: the one given at once,
and the final one, 500 documents later. Beside it river's TextClust, with the label it gives while
it learns, at the radius that is best by NMI and ARI of the first 3,000 documents; and k-means by
mini-batches over TF-IDF of all documents at once, given the true number of topics. "nats" is the
mean score, minus the log predictive density of a document.

NMI is normalised by the geometric mean; documents without a topic are learned and not judged. "K"
is the number of clusters of judged documents, in brackets of those with at least five. CPU seconds
of one thread. The tables are those of research/notes/texts-measured.md.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa
from pyarrow import compute
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from benchmarks import text_vectors
from benchmarks.machine import machine, markdown, spread
from benchmarks.streams import DATA
from benchmarks.text_data import BROAD, CORPORA, LONG, Corpus, IntArray, first, shuffled
from benchmarks.text_peers import TOKEN, Found, bags, kmeans, textclust
from streamddcrp.data.texts import read_texts
from streamddcrp.data.words import ENGLISH, WordTable
from streamddcrp.models.text.config import make_config
from streamddcrp.models.text.engine import empty_state, step
from streamddcrp.models.text.text_stream import TextStream

RADII, FEW = (0.5, 0.7, 0.9), 3_000  # documents by whose labels the radius is chosen
RADIUS = 0.7  # where it is not chosen
BATCH = 1_000
SEEDS, TIMES = 5, 3
QUALITY = (
    "corpus", "documents", "topics", "nats", "final", "at once", "TextClust", "radius", "k-means",
)  # fmt: skip


def stories(texts: Any, model: TextStream | None = None) -> tuple[Found, Found, float]:
    """Labels at once and final ones of `TextStream`, and its mean score."""
    arrow = texts if isinstance(texts, pa.Array) else pa.array(texts)
    model = TextStream() if model is None else model
    model.step_many(arrow[:0])
    at_once, final, score = [], [], 0.0
    start = time.process_time()
    for row in range(0, len(arrow), BATCH):
        out = model.step_many(arrow[row : row + BATCH])
        at_once.append(out["label"].to_numpy())
        score += float(np.nansum(out["score"].to_numpy()))
        final.append(model.final_labels()["label"].to_numpy())
    seconds = time.process_time() - start
    final.append(model.final_labels(window=True)["label"].to_numpy())
    labels = Found(np.concatenate(at_once), seconds), Found(np.concatenate(final), seconds)
    return (*labels, score / len(arrow))


def agreement(y: IntArray, label: IntArray) -> tuple[float, float]:
    """NMI by the geometric mean and ARI of the documents with a topic, of those with a label."""
    y = y[: len(label)]
    y, label = y[y >= 0], label[y >= 0]
    nmi = normalized_mutual_info_score(y, label, average_method="geometric")
    return float(nmi), float(adjusted_rand_score(y, label))


def sizes(label: IntArray) -> str:
    """Number of clusters, and of those of at least five."""
    n = np.unique(label, return_counts=True)[1]
    return f"{len(n):,} ({(n >= 5).sum():,})"


def described(corpus: Corpus, found: Found) -> str:
    """NMI / ARI; number of clusters, and how far it came."""
    nmi, ari = agreement(corpus.y, found.labels)
    reached = len(found.labels)
    k = sizes(found.labels[corpus.y[:reached] >= 0])
    cut = "" if reached == len(corpus.y) else f", cut off after {reached:,}"
    return f"{nmi:.3f} / {ari:.3f}; {k}{cut}"


def quality(name: str, corpus: Corpus, limit: float) -> tuple[list[str], list[str], float]:
    """Rows of a corpus and of its beginning, and TextClust's documents a second."""
    once, final, score = stories(corpus.texts)
    documents, start = bags(corpus.texts), first(corpus, FEW)
    tried = {r: textclust(documents[:FEW], r, name, limit / len(RADII)) for r in RADII}
    radius = max(tried, key=lambda r: sum(agreement(start.y, tried[r].labels)))
    peer = textclust(documents, radius, name, limit) if len(documents) > FEW else tried[radius]
    methods = [described(corpus, found) for found in (final, once, peer)]
    row = [name, f"{len(corpus.y):,}", sizes(corpus.y[corpus.y >= 0]), f"{score:.3f}", *methods]
    row += [f"{radius}", described(corpus, kmeans(corpus))]
    once, final, _ = stories(start.texts)
    beginning = [described(start, found) for found in (final, once, tried[radius], kmeans(start))]
    return row, [name, *beginning], peer.speed


def order(name: str, corpus: Corpus, scale: str = "story") -> list[str]:
    """How much the final labels depend on the order within blocks."""
    found = []
    for seed in tqdm(range(SEEDS), desc=f"{name}: orders", leave=False):
        other, _ = shuffled(corpus, seed)
        _, final, _ = stories(other.texts, TextStream(scale=scale))
        judged = final.labels[other.y >= 0]
        found.append((*agreement(other.y, final.labels), len(np.unique(judged))))
    nmi, ari, k = zip(*found, strict=True)
    return [name, spread(nmi, ".3f"), spread(ari, ".3f"), spread(k, ".0f")]


def beside(name: str, corpus: Corpus, limit: float) -> list[str]:
    """Final labels of the beginning in several orders, and the peers in the first of them."""
    other, _ = shuffled(corpus, 0)
    start = first(other, FEW)
    peer = textclust(bags(start.texts), RADIUS, name, limit)
    cells = order(name, first(corpus, FEW))
    return [*cells, described(start, peer), described(start, kmeans(start))]


def decays(name: str, corpus: Corpus) -> list[str]:
    """Score and final labels with the decay learned, what it is then, and the time it takes."""
    given, learned, seconds = TextStream(), TextStream(decay=None), []
    row = [name]
    for model in (given, learned):
        once, final, score = stories(corpus.texts, model)
        seconds.append(once.seconds)
        row += [f"{score:.3f}", described(corpus, final)]
    return [*row, f"{learned.decay_scale:.0f}", f"{seconds[1] / seconds[0]:.2f}"]


def best_of(run: Callable[[], Any], n: int) -> float:
    """Documents a second, the best of some."""
    seconds = []
    for _ in range(TIMES):
        start = time.process_time()
        run()
        seconds.append(time.process_time() - start)
    return n / min(seconds)


def speed(name: str, texts: list[str], peer: float | None) -> list[str]:
    """Documents a second: lists of words through the engine, and raw strings to both labels."""
    table, arrow = WordTable(), pa.array(texts)
    words, ends = table.encode(texts)
    parts = [list(dict.fromkeys(table.decode(part))) for part in np.split(words, ends[1:-1])]
    lists, t, config = read_texts(parts), np.arange(len(texts), dtype=np.float64), make_config()

    def listed() -> None:
        state, known = empty_state(config), WordTable(())
        step(config, state, known, lists.data, lists.offsets, t, listed=lists.listed)

    listed()
    rates = [best_of(listed, len(t)), best_of(lambda: stories(arrow), len(t))]
    rows = [f"{rate:,.0f}" for rate in rates] + ["-" if peer is None else f"{peer:,.0f}"]
    return [name, f"{sum(map(len, parts)) / len(t):.1f}", *rows]


def reading(texts: list[str]) -> list[list[str]]:
    """Ways from raw texts to numbers of words, in documents a second."""
    arrow, n = pa.array(texts), len(texts)
    read = read_texts(arrow)
    hashing = HashingVectorizer(token_pattern=TOKEN, stop_words=list(ENGLISH), norm=None)
    ways: dict[str, Callable[[], Any]] = {
        "`WordTable.read`": lambda: WordTable().read(read.data, read.offsets, listed=False),
        "pyarrow: lower, split, dictionary (stop words stay)": lambda: (
            compute.split_pattern_regex(compute.utf8_lower(arrow), r"[^a-z0-9+#']+")
            .flatten()
            .dictionary_encode()
        ),
        "scikit-learn, HashingVectorizer": lambda: hashing.transform(texts),
    }
    try:
        import tokenizers  # noqa: PLC0415
    except ImportError:
        rows = [["tokenizers, pre-tokenizer and a dict", "skipped: not installed"]]
    else:
        cut = tokenizers.pre_tokenizers.Split(tokenizers.Regex(r"[^a-z0-9+#']+"), "removed")

        def run() -> None:
            at: dict[str, int] = {}
            for text in texts:
                for word, _ in cut.pre_tokenize_str(text.lower()):
                    at.setdefault(word, len(at))

        rows = []
        ways["tokenizers, pre-tokenizer and a dict"] = run
    return [[name, f"{best_of(run, n):,.0f}"] for name, run in ways.items()] + rows


def memory(corpus: Corpus, n: int) -> list[list[str]]:
    """State and process while ``n`` documents pass whose words are others in each round."""
    model, rows, done, seconds = TextStream(), [], 0, 0.0
    marks = [n // 10, n // 4, n // 2, n]
    bar = tqdm(total=n, desc="new words in each round", leave=False)
    while done < n:
        mark = f"q{done // len(corpus.texts)}"
        words = [[f"{word}{mark}" for word in text.split()] for text in corpus.texts[: n - done]]
        texts = pa.array([" ".join(part) for part in words])
        start = time.process_time()
        for row in range(0, len(texts), 10_000):
            model.step_many(texts[row : row + 10_000])
            model.final_labels()
            model.events()
        seconds += time.process_time() - start
        done += len(texts)
        bar.update(len(texts))
        if done >= marks[0]:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            rows.append(
                [f"{done:,}", f"{len(model.to_bytes()) / 1e6:.2f}", f"{model.n_tables}",
                 f"{model.n_words:,}", f"{peak:,.0f}", f"{done / seconds:,.0f}"]
            )  # fmt: skip
            marks = [m for m in marks if m > done]
    bar.close()
    return rows


def show(title: str, header: tuple[str, ...], rows: list[list[str]]) -> None:
    """Print a table under its title."""
    click.echo(f"\n{title}\n\n{markdown(header, rows)}")


@click.command("text")
@click.option(
    "--data", type=click.Path(path_type=Path), default=DATA, help="Folder of shared data."
)
@click.option("--quick", is_flag=True, help="The first 2,000 documents of each: two minutes.")
@click.option(
    "--limit", default=300.0, show_default=True, help="CPU seconds after which a peer is cut off."
)
def main(data: Path, quick: bool, limit: float) -> None:
    """Find the topics of short texts in one pass, beside TextClust and k-means."""
    began = time.perf_counter()
    chosen = {}
    for name, load in (CORPORA | LONG).items():
        try:
            corpus = load(data)
        except FileNotFoundError as error:
            click.echo(f"Skipped {name}: there is no {error}.")
            continue
        chosen[name] = first(corpus, 2_000) if quick else corpus
    judged = {name: corpus for name, corpus in chosen.items() if name in CORPORA}
    if not judged:
        return
    click.echo(machine())
    with threadpool_limits(1):
        stories(["to compile"] * 1000)
        found = {name: quality(name, corpus, limit) for name, corpus in judged.items()}
        rows, beginnings, rates = map(list, zip(*found.values(), strict=True))
        show("NMI / ARI of labels; their number (of five documents or more):", QUALITY, rows)
        header = ("the beginning of", "final", "at once", "TextClust", "k-means")
        show(f"The same of the first {FEW:,} documents:", header, beginnings)
        orders = [order(name, corpus) for name, corpus in judged.items()]
        title = f"{SEEDS} orders within blocks of 500 (of all, where time means nothing), final:"
        show(title, ("corpus", "NMI", "ARI", "K"), orders)
        rows = [beside(name, corpus, limit) for name, corpus in judged.items()]
        header = ("the beginning of", "NMI", "ARI", "K", f"TextClust, {RADIUS}", "k-means")
        show(f"The first {FEW:,} in {SEEDS} orders, peers in the first of them:", header, rows)
        broad = {}
        if (data / "newsgroups20").is_dir():
            broad = {name: load(data) for name, load in BROAD.items()}
        for scale in ("story", "topic"):
            rows = [[*order(n, c, scale), described(c, kmeans(c))] for n, c in broad.items()]
            title = f'Five broad classes, {SEEDS} orders, scale="{scale}":'
            show(title, ("groups", "NMI", "ARI", "K", "k-means"), rows)
        header = ("corpus", "500: nats", "final", "learned: nats", "final", "scale", "time")
        rows = [decays(name, corpus) for name, corpus in judged.items()]
        show("The decay learned; the time that it takes, against a given one:", header, rows)
        peers = dict(zip(judged, rates, strict=True))
        header = ("documents/s of", "words", "lists of words", "raw strings", "TextClust")
        speeds = [speed(name, c.texts, peers.get(name)) for name, c in chosen.items()]
        show(f"Documents a CPU second, best of {TIMES}, batches of {BATCH:,}:", header, speeds)
        name, corpus = list(judged.items())[-1]
        show(f"Reading words of {name}:", ("way", "documents/s"), reading(corpus.texts))
        name, corpus = next(iter(judged.items()))
        header = ("documents", "state, MB", "stories", "words", "process, MB", "documents/s")
        turned = memory(corpus, 50_000 if quick else 1_000_000)
        show(f"{name} again and again, all words new in each round:", header, turned)
        text_vectors.report(judged, show)
    click.echo(
        f"\n{(time.perf_counter() - began) / 60:.0f} min in all{', --quick' if quick else ''}."
    )


if __name__ == "__main__":
    main()
