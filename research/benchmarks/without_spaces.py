"""Stories in scripts without spaces: tweets whose words are written in made-up characters.

Each word becomes one to three of 3,000 characters ("Chinese") or two to seven of 50 letters that
come as unevenly as letters do ("letters"), drawn at random once a word, and the spaces go. The same
stream is read as `TextStream` reads it, and as lists of its true words, of single characters, and
of pairs of neighbours. Labels are final ones, over orders within blocks, each with characters of
its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import numpy as np
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from benchmarks.machine import machine, markdown, spread
from benchmarks.streams import DATA
from benchmarks.text import BATCH, agreement
from benchmarks.text_data import CORPORA, first, shuffled
from streamddcrp.models.text.text_stream import TextStream

N, SEEDS, FIRST_SEED = 12_000, 5, 20  # others were in view when the reader was made
Spell = Callable[[np.random.Generator], str]


def _chinese(rng: np.random.Generator) -> str:
    return "".join(chr(0x4E00 + c) for c in rng.integers(0, 3000, rng.integers(1, 4)))


def _letters(rng: np.random.Generator) -> str:
    often = 1.0 / np.arange(3.0, 53.0)
    chosen = rng.choice(50, rng.integers(2, 8), p=often / often.sum())
    return "".join(chr(0x3041 + c) for c in chosen)


SCRIPTS: dict[str, Spell] = {"Chinese": _chinese, "letters": _letters}


def spelled(texts: list[str], spell: Spell, seed: int) -> list[list[str]]:
    """The texts as lists of words in other characters."""
    rng = np.random.default_rng(seed)
    names: dict[str, str] = {}
    out = []
    for text in texts:
        words = text.split()
        for word in words:
            if word not in names:
                names[word] = spell(rng)
        out.append([names[word] for word in words])
    return out


def joined(words: list[list[str]]) -> list[str]:
    """What the reader gets."""
    return ["".join(some) for some in words]


READINGS: dict[str, Callable[[list[list[str]]], Any]] = {
    "true words": lambda words: words,
    "as read": joined,
    "single characters": lambda words: [list(text) for text in joined(words)],
    "pairs": lambda words: [
        [a + b for a, b in pairwise(text)] or list(text) for text in joined(words)
    ],
}


def labels_of(rows: Any) -> tuple[np.ndarray[Any, Any], float]:
    """Final labels, and CPU seconds."""
    model = TextStream()
    model.step_many(rows[:0])
    final, start = [], time.process_time()
    for row in range(0, len(rows), BATCH):
        model.step_many(rows[row : row + BATCH])
        final.append(model.final_labels()["label"].to_numpy())
    seconds = time.process_time() - start
    final.append(model.final_labels(window=True)["label"].to_numpy())
    return np.concatenate(final), seconds


@click.command("without-spaces")
@click.option(
    "--data", type=click.Path(path_type=Path), default=DATA, help="Folder of shared data."
)
def main(data: Path) -> None:
    """Find stories in texts of scripts without spaces."""
    click.echo(machine())
    rows = []
    with threadpool_limits(1):
        for name in ("Tweets-T", "Tweets"):
            corpus = first(CORPORA[name](data), N)
            for script, spell in SCRIPTS.items():
                found: dict[str, list[tuple[float, ...]]] = {reading: [] for reading in READINGS}
                for seed in tqdm(range(FIRST_SEED, FIRST_SEED + SEEDS), leave=False):
                    other, _ = shuffled(corpus, seed)
                    words = spelled(other.texts, spell, seed)
                    for reading, read in READINGS.items():
                        label, seconds = labels_of(read(words))
                        scores = agreement(other.y, label)
                        k = len(np.unique(label[other.y >= 0]))
                        found[reading].append((*scores, k, len(label) / seconds))
                for reading, several in found.items():
                    nmi, ari, k, speed = zip(*several, strict=True)
                    cells = [spread(nmi, ".3f"), spread(ari, ".3f"), spread(k, ".0f")]
                    rows.append([name, script, reading, *cells, spread(speed, ",.0f")])
    header = ("corpus", "script", "words", "NMI", "ARI", "K", "texts a second")
    click.echo(f"\n{SEEDS} orders, medians and extremes:\n\n{markdown(header, rows)}")


if __name__ == "__main__":
    main()
