"""Topics that conservative and liberal blogs share, and those they do not.

Run: python examples/blogs_of_two_sides.py

773 posts of six political blogs in 2008, as counts of 1,290 words (shared/data/poliblog beside the
checkout, or in the folder that the environment variable STREAMDDCRP_SHARED names; without them
there is nothing to do). Each side is a group; `GroupDP` lets them share clusters of posts. The same
posts are then followed as two streams that know nothing of each other, and as one.
"""

import os
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from streamddcrp import GroupDP

SHARED = os.environ.get("STREAMDDCRP_SHARED") or Path(__file__).resolve().parents[2] / "shared/data"
LIKELIHOOD = ("dirichlet_multinomial", 0.1, 1290)
OPTIONS = {"likelihood": LIKELIHOOD, "n_particles": 10, "n_shared": 20, "alpha": 1.0}


def posts(folder):
    """Return counts of words, shape (N, V), sides and words; posts in a fixed random order."""
    bag = pq.read_table(folder / "bow.parquet").to_pydict()
    side = np.array(pq.read_table(folder / "docs.parquet")["label"].to_pylist())
    words = np.array(pq.read_table(folder / "vocab.parquet")["token"].to_pylist())
    counts = np.zeros((len(side), len(words)))
    counts[bag["doc"], bag["word"]] = bag["count"]
    order = np.random.default_rng(0).permutation(len(side))
    return counts[order], side[order], words


def nats(models, counts, sides):
    """Follow each stream by its model; return nats a word, every post before it is learned."""
    total = 0.0
    for model, rows, side in zip(models, counts, sides, strict=True):
        total += model.step_many(rows, group=side)["score"].to_numpy().sum()
    return total / sum(rows.sum() for rows in counts)


def main():
    folder = Path(SHARED) / "poliblog"
    if not folder.exists():
        print(f"no posts in {folder}: nothing to do")
        return
    counts, side, words = posts(folder)
    shared = GroupDP(**OPTIONS)
    together = nats([shared], [counts], [side])
    both = [counts[side == s] for s in np.unique(side)]
    apart = nats([GroupDP(**OPTIONS) for _ in both], both, [["one"] * len(rows) for rows in both])
    blind = nats([GroupDP(**OPTIONS)], [counts], [["all"] * len(counts)])
    print(f"nats a word: sharing {together:.4f}, apart {apart:.4f}, one group {blind:.4f}")
    print(f"correlation of the sides before any post: {shared.correlation(*np.unique(side)):.2f}\n")
    summary = shared.summary().to_pydict()
    have = counts.sum(axis=0) / counts.sum()
    for k in np.argsort(summary["weight"])[::-1][:12]:
        share = np.array([summary[f"probability_{w}"][k] for w in range(len(words))])
        top = " ".join(words[np.argsort(share * np.log(share / have))[::-1][:7]])
        sizes = "  ".join(f"{s} {summary[f'weight_{s}'][k]:5.0f}" for s in np.unique(side))
        print(f"{sizes}  {top}")


if __name__ == "__main__":
    main()
