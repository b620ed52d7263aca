"""Follow the stories of Reuters in the spring of 1987, day by day.

Run: python examples/reuters_spring.py [FOLDER]

10,744 reports, 26 February to 31 March, an epoch is a day: their titles and the first forty words
below. Prints the largest stories with their first and last days and some of their titles; the
picture goes to FOLDER, demo/ unless another is given. The reports
(reuters21578/reuters_to_1987_03.parquet) come from shared/data beside the checkout, or from the
folder that the environment variable STREAMDDCRP_SHARED names; without them there is nothing to do.
"""

import os
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pyarrow.parquet as pq

from streamddcrp import TemporalDPM
from streamddcrp.data import tokenize

SHARED = os.environ.get("STREAMDDCRP_SHARED") or Path(__file__).resolve().parents[2] / "shared/data"
LEAD = 40  # words of the report that are read
SHOWN, TITLES = 25, 3  # stories; titles of each


def words_of(title, body):
    """Return the words of a title and the first of its report; numbers are no words."""
    words = tokenize(title) + tokenize(body)[:LEAD]
    return [word for word in words if not word.isdigit()]


def day(seconds):
    """Say a day as 2 Mar."""
    d = np.datetime64(int(seconds), "s").item()
    return f"{d.day} {d:%b}"


def show(model, titles, labels):
    """Print the largest stories: when they ran, their words, some of their titles."""
    tracks = model.trajectories().to_pydict()
    mass, days, words = {}, {}, {}
    columns = (tracks[name] for name in ("t", "id", "mass", "words"))
    for t, story, rows, said in zip(*columns, strict=True):
        mass[story] = mass.get(story, 0.0) + rows
        days.setdefault(story, []).append(t)
        words[story] = max(words.get(story, (0.0, "")), (rows, said))
    print(f"{len(mass)} stories; the {SHOWN} largest:")
    for story in sorted(mass, key=mass.get, reverse=True)[:SHOWN]:
        ours = np.flatnonzero(labels == story)
        first, last = day(days[story][0]), day(days[story][-1])
        print(f"\n{story}: {mass[story]:.0f} reports, {first} to {last}: {words[story][1]}")
        for i in ours[:: max(len(ours) // TITLES, 1)][:TITLES]:
            print(f"    {titles[i]}")


def main():
    source = Path(SHARED) / "reuters21578" / "reuters_to_1987_03.parquet"
    if not source.exists():
        print(f"no stories: there is no {source}")
        return
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "demo")
    folder.mkdir(parents=True, exist_ok=True)
    table = pq.read_table(source, columns=["time", "title", "body"])
    titles, bodies = ([text or "" for text in table[c].to_pylist()] for c in ("title", "body"))
    texts = [words_of(title, body) for title, body in zip(titles, bodies, strict=True)]
    model = TemporalDPM(epoch="1d")
    model.learn_many(texts, table["time"])
    model.close()
    labels = model.final_labels(window=True)["label"].to_numpy()
    show(model, titles, labels)
    mpl.use("Agg")
    path = folder / "reuters-1987.png"
    model.plot().figure.savefig(path, dpi=110)
    print(f"\n{path}")


if __name__ == "__main__":
    main()
