"""Follow the themes of the State of the Union, 1790 to 2020, decade by decade: docs/temporal.md.

Run: python examples/state_of_the_union.py [FOLDER]

The 240 addresses are cut into paragraphs, and an epoch is ten years; scikit-learn's analyser reads
the words and leaves English stop words out. The picture goes to FOLDER, demo/ unless another is
given; the addresses (sotu/sotu.parquet) come from shared/data beside the checkout, or from the
folder that the environment variable STREAMDDCRP_SHARED names; without them there is nothing to do.
"""

import os
import re
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow.parquet as pq
from sklearn.feature_extraction.text import CountVectorizer

from streamddcrp import TemporalDPM
from streamddcrp.plots.stream import Layers, draw_layers

SHARED = os.environ.get("STREAMDDCRP_SHARED") or Path(__file__).resolve().parents[2] / "shared/data"
DECADE, SHORT = 10.0, 20  # years; words of a paragraph
DRAWN = 40  # themes in the picture


def paragraphs(path):
    """Return the words of each paragraph, and its year."""
    table = pq.read_table(path)
    read = CountVectorizer(stop_words="english").build_analyzer()
    texts, years = [], []
    for text, year in zip(table["text"].to_pylist(), table["year"].to_pylist(), strict=True):
        parts = [read(part) for part in re.split(r"\n+", text)]
        parts = [part for part in parts if len(part) >= SHORT]
        texts += parts
        years += [float(year)] * len(parts)
    return texts, years


def draw(tracks, first_year, path):
    """Draw the share of the largest themes over time, with their words; print them."""
    epochs = np.arange(max(tracks["epoch"]))  # the last decade has hardly begun
    share = {label: np.zeros(len(epochs) + 1) for label in tracks["id"]}
    words = {}
    columns = (tracks[name] for name in ("epoch", "id", "mass", "words"))
    for epoch, label, value, top in zip(*columns, strict=True):
        share[label][epoch] = value
        if value >= max(share[label]):
            words[label] = " ".join(top.split()[:3])
    total = np.maximum(sum(share.values()), 1.0)
    share = {label: (mass / total)[epochs] for label, mass in share.items()}
    large = sorted(share, key=lambda label: -share[label].sum())[:DRAWN]
    large = [label for label in large if share[label].any()]  # some are of the last decade alone
    large.sort(key=lambda label: share[label] @ epochs / share[label].sum())
    years = first_year + DECADE * (epochs + 0.5)
    for label in large:
        lives = first_year + DECADE * np.flatnonzero(share[label])[[0, -1]]
        most = years[int(share[label].argmax())] - 5
        print(f"{lives[0]:.0f}-{lives[1] + 9:.0f}, largest {most:.0f}: {words[label]}")
    _, ax = plt.subplots(figsize=(13, 7), layout="constrained")
    ax.set_title(f"The {len(large)} largest themes of the State of the Union", loc="left")
    ax.set_ylabel("paragraphs of ten years, %")
    mass = 100.0 * np.array([share[label] for label in large])
    layers = Layers(np.array(large), [words[label] for label in large], mass, mass.sum(axis=1))
    draw_layers(ax, years, layers, set(large), counted="sum over the decades, %")
    ax.set_xlabel("year")
    plt.savefig(path, dpi=110)
    print(f"{path}: the {len(large)} largest of {len(share)} themes")


def main():
    source = Path(SHARED) / "sotu" / "sotu.parquet"
    if not source.exists():
        print(f"no picture: there is no {source}")
        return
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "demo")
    folder.mkdir(parents=True, exist_ok=True)
    texts, years = paragraphs(source)
    model = TemporalDPM(epoch=DECADE)
    model.learn_many(texts, years)
    model.close()
    draw(model.trajectories().to_pydict(), years[0], folder / "state-of-the-union.png")


if __name__ == "__main__":
    main()
