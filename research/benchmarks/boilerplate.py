"""What words that have nothing to do with the stories do to them: links, publishers, datelines.

The labels of `benchmarks.text`, after each text was given boilerplate at random, for several
orders within blocks. "read" leaves links and the like out, the default; "kept" reads them as words,
so that the model has to find them itself. TextClust (radius 0.7, which is the best on tweets) and
k-means with the true number of topics see the first order, links and all.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from benchmarks.machine import machine, markdown, spread
from benchmarks.streams import DATA
from benchmarks.text import agreement, sizes, stories
from benchmarks.text_data import CORPORA, Corpus, first, shuffled
from benchmarks.text_peers import bags, kmeans, textclust
from streamddcrp.models.text.text_stream import TextStream

N, SEEDS, RADIUS = 12_000, 5, 0.7
LETTERS = np.array(list("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"))
PUBLISHERS = (
    "The Daily Planet", "Reuters News", "Yahoo Finance", "Evening Herald Online",
    "CNN International",
)  # fmt: skip
CITIES = (
    "LONDON", "WASHINGTON", "NEW YORK", "TOKYO", "PARIS", "BERLIN", "BEIJING", "MOSCOW",
)  # fmt: skip
FOOTER = "read full story visit website subscribe newsletter today free trial offer"
Add = Callable[[str, np.random.Generator], str]


def _link(rng: np.random.Generator) -> str:
    return "https://t.co/" + "".join(rng.choice(LETTERS, 10))


def _passed_on(text: str, rng: np.random.Generator) -> str:
    text = f"RT @user{rng.integers(300)}: {text}" if rng.random() < 0.3 else text
    return f"{text} {_link(rng)}" if rng.random() < 0.5 else text


KINDS: dict[str, Add] = {
    "none": lambda text, _: text,
    "a link in each": lambda text, rng: f"{text} {_link(rng)}",
    "a link in half, 30 % passed on": _passed_on,
    "a publisher": lambda text, _: f"{text} - {PUBLISHERS[0]}",
    "one of five publishers": lambda text, rng: f"{text} - {rng.choice(PUBLISHERS)}",
    "a dateline": lambda text, rng: f"{rng.choice(CITIES)} (Reuters) - {text}",
    "a common word": lambda text, _: f"breaking {text}",
    "a footer": lambda text, _: f"{text} {FOOTER}",
}
SOME = {
    "Tweets-T": tuple(KINDS),
    "StackOverflow titles": ("none", "one of five publishers", "a footer"),
    "Reuters titles": ("none", "a link in each", "one of five publishers"),
}


def with_boilerplate(corpus: Corpus, kind: str, seed: int) -> Corpus:
    """The documents with boilerplate of a kind."""
    rng = np.random.default_rng([seed, zlib.crc32(kind.encode())])
    return corpus._replace(texts=[KINDS[kind](text, rng) for text in corpus.texts])


def row(name: str, kind: str, corpus: Corpus, limit: float) -> list[str]:
    """NMI, ARI and number of clusters over the orders, and of the peers."""
    found: dict[bool, list[tuple[float, float, int]]] = {False: [], True: []}
    for seed in tqdm(range(SEEDS), desc=f"{name}, {kind}", leave=False):
        other = with_boilerplate(shuffled(corpus, seed)[0], kind, seed)
        for kept, one in found.items():
            model = TextStream(keep=("links", "retweets") if kept else None)
            final = stories(other.texts, model)[1].labels
            judged = final[other.y >= 0]
            one.append((*agreement(other.y, final), len(np.unique(judged))))
    cells = []
    for judged_orders in found.values():
        nmi, ari, k = zip(*judged_orders, strict=True)
        cells += [spread(nmi, ".3f"), spread(ari, ".3f"), spread(k, ".0f")]
        if "link" not in kind:
            cells += ["as read", "", ""]
            break
    other = with_boilerplate(shuffled(corpus, 0)[0], kind, 0)
    for peer in (textclust(bags(other.texts), RADIUS, name, limit), kmeans(other)):
        nmi, ari = agreement(other.y, peer.labels)
        cells.append(
            f"{nmi:.3f} / {ari:.3f}; {sizes(peer.labels[other.y[: len(peer.labels)] >= 0])}"
        )
    return [name, kind, *cells]


@click.command("boilerplate")
@click.option(
    "--data", type=click.Path(path_type=Path), default=DATA, help="Folder of shared data."
)
@click.option(
    "--limit", default=60.0, show_default=True, help="CPU seconds after which TextClust is cut off."
)
def main(data: Path, limit: float) -> None:
    """Find stories in texts with links, publishers, datelines and footers."""
    click.echo(machine())
    rows = []
    with threadpool_limits(1):
        for name, kinds in SOME.items():
            try:
                corpus = first(CORPORA[name](data), N)
            except FileNotFoundError as error:
                click.echo(f"Skipped {name}: there is no {error}.")
                continue
            rows += [row(name, kind, corpus, limit) for kind in kinds]
    header = (
        "corpus", "boilerplate", "read: NMI", "ARI", "K", "kept: NMI", "ARI", "K", "TextClust",
        "k-means",
    )  # fmt: skip
    click.echo(
        f"\nThe first {N:,}, {SEEDS} orders, medians and extremes:\n\n{markdown(header, rows)}"
    )


if __name__ == "__main__":
    main()
