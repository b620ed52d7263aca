"""Follow the stories of Reuters in the spring of 1987 and of AP from 1988 to 1990: docs/text.md.

Run: python examples/reuters_stories.py [FOLDER]

A document is a title with the first two hundred letters of its text (Reuters), or the first sixty
words (AP). The pictures go to FOLDER, demo/ unless another is given. The data (reuters21578, ap)
come from shared/data beside the checkout, or from the folder that the environment variable
STREAMDDCRP_SHARED names; what is not there is skipped.
"""

import os
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow.parquet as pq

from streamddcrp import TextStream

SHARED = os.environ.get("STREAMDDCRP_SHARED") or Path(__file__).resolve().parents[2] / "shared/data"


def reuters(path):
    """Return the beginnings of stories and their times, in order."""
    table = pq.read_table(path)
    columns = table["title"].to_pylist(), table["body"].to_pylist()
    return [f"{a} {b[:200]}" for a, b in zip(*columns, strict=True)], table["time"].to_pylist()


def ap(path):
    """Return the beginnings of articles and their dates, in order."""
    table = pq.read_table(path).sort_by([("date", "ascending"), ("docno", "ascending")])
    texts = [" ".join(text.split()[:60]) for text in table["text"].to_pylist()]
    return texts, table["date"].to_numpy().astype("datetime64[us]").tolist()


SOURCES = {
    "reuters-stories": (
        "Reuters, spring 1987", "reuters21578/reuters_to_1987_03.parquet", reuters, {}
    ),
    "ap-stories": ("AP, 1988 to 1990", "ap/docs.parquet", ap, {"decay": "180d"}),
}  # fmt: skip


def follow(name, folder):
    """Learn one source in a pass, print its largest stories and draw them."""
    title, file, read, options = SOURCES[name]
    path = Path(SHARED) / file
    if not path.exists():
        print(f"no picture of {title}: there is no {path}")
        return
    texts, times = read(path)
    model = TextStream(**options)
    out = model.step_many(texts, times)
    print(f"\n{title}: {len(texts):,} documents, {model.n_tables} stories live at the end")
    size, days = {}, {}
    labels = model.final_labels(window=True)["label"].to_numpy()
    for label, when in zip(labels.tolist(), times, strict=True):
        size[label] = size.get(label, 0) + 1
        days.setdefault(label, []).append(when)
    tracks = model.trajectories()
    words = dict(zip(tracks["id"].to_pylist(), tracks["words"].to_pylist(), strict=True))
    for label in sorted(size, key=lambda i: -size[i])[:15]:
        first, last = days[label][0], days[label][-1]
        print(f"{size[label]:6,}  {first:%d %b %Y} - {last:%d %b %Y}  {words.get(label, '')}")
    odd = int(np.argmax(out["score"].to_numpy()))
    print(f"most surprising, {times[odd]:%d %b %Y}: {texts[odd][:70]}...")
    ax = model.plot()
    ax.set_title(f"{title}: the largest stories, by their most typical words", loc="left")
    plt.savefig(folder / f"{name}.png", dpi=100)
    print(f"-> {folder / name}.png")


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "demo")
    folder.mkdir(parents=True, exist_ok=True)
    for name in SOURCES:
        follow(name, folder)


if __name__ == "__main__":
    main()
