"""Grow a tree of topics from a stream of news, and draw it: docs/nested.md.

Run: python examples/topic_tree.py [FOLDER]

Articles of the Associated Press come one after the other; the tree is asked where an article
belongs before it learns it. The pictures go to FOLDER, demo/ unless another is given; the articles
(ap/docs.parquet) come from shared/data beside the checkout, or from the folder that the environment
variable STREAMDDCRP_SHARED names; without them a small made-up stream is used instead.
"""

import os
import sys
from collections import Counter
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pyarrow.parquet as pq

from streamddcrp import NestedCRPTopics
from streamddcrp.data import tokenize

SHARED = os.environ.get("STREAMDDCRP_SHARED") or Path(__file__).resolve().parents[2] / "shared/data"
ARTICLES, COMMON, RARE = 1000, 0.25, 3  # how many; share of articles; articles


def articles(path):
    """Return the words of each article, those in very many or very few of them left out."""
    texts = pq.read_table(path, columns=["text"])["text"].to_pylist()[:ARTICLES]
    texts = [[word for word in tokenize(text) if word.isalpha()] for text in texts]
    seen = Counter(word for text in texts for word in set(text))
    return [[w for w in text if RARE <= seen[w] <= COMMON * len(texts)] for text in texts]


def made_up(n=240):
    """Return documents from a tree of three subjects with two kinds each."""
    rng = np.random.default_rng(0)
    general = ["today", "people", "time", "said", "new", "year"]
    subjects = {
        "game team player season": ("goal ball striker keeper", "serve racket court set"),
        "market price trade bank": ("stock share index fund", "wheat corn bushel harvest"),
        "court law judge case": ("murder trial jury guilty", "patent licence claim firm"),
    }
    out = []
    for _ in range(n):
        subject = list(subjects)[rng.integers(3)]
        kind = subjects[subject][rng.integers(2)]
        levels = (general, subject.split(), kind.split())
        out.append([word for level in levels for word in rng.choice(level, 12).tolist()])
    return out


def show(node, indent=0):
    """Print a tree, a line a node."""
    words = " ".join(str(word) for word, _ in node["words"][:6])
    print(f"{'  ' * indent}{node['weight']:6.0f}  {words}")
    for child in node["children"]:
        show(child, indent + 1)


def main():
    mpl.use("Agg")
    source = Path(SHARED) / "ap" / "docs.parquet"
    documents = articles(source) if source.exists() else made_up()
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "demo")
    folder.mkdir(parents=True, exist_ok=True)

    model = NestedCRPTopics()
    first, rest = documents[: len(documents) // 2], documents[len(documents) // 2 :]
    model.learn_many(first)  # one call or many: the same tree, bit for bit
    place = model.transform_one(rest[0])
    print(f"the next document goes to {place['path']}, with probability {place['path_prob']:.2f}")
    print(f"its words come from the levels in the shares {np.round(place['levels'], 2)}")
    model.learn_many(rest)
    show(model.tree())
    births = sum(event.kind == "birth" for event in model.events())
    print(f"{model.n_nodes} topics are alive; {births} births among the last events")
    for kind in ("tree", "growth"):
        path = folder / f"topic-{kind}.png"
        model.plot(kind).figure.savefig(path, dpi=90)
        print(path)


if __name__ == "__main__":
    main()
