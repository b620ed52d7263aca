"""Stories along a stream of texts: what `TextStream` remembers of them, and the picture."""

from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

from streamddcrp.models.text.embedding_stream import EmbeddingStream
from streamddcrp.models.text.text_stream import TextStream

THEMES = ("oil prices opec barrel", "cup final goal team", "vote election party poll",
          "storm flood rain wind", "bank rate loan credit")  # fmt: skip


def texts(n, seed=0):
    """Stories that take turns, three at a time, with words that come and go."""
    rng = np.random.default_rng(seed)
    for i in range(n):
        theme = THEMES[(i // 700 + rng.integers(3)) % len(THEMES)].split()
        yield " ".join([*rng.choice(theme, 3, replace=False), f"w{rng.integers(50) + i // 20}"])


N = 5_000
TEXTS = list(texts(N))


@pytest.fixture(scope="module")
def model():
    model = TextStream(lag=100, decay=200.0)
    model.learn_many(TEXTS)
    return model


def test_trajectories_count_every_document(model):
    tracks = model.trajectories()
    assert tracks.schema.names == ["epoch", "begin", "end", "id", "mass", "words"]
    assert sum(tracks["mass"].to_pylist()) == N
    labels = model.final_labels(window=True)["label"].to_numpy()
    begin, end = (tracks[name].to_numpy() for name in ("begin", "end"))
    large = np.bincount(labels[labels >= 0]).argmax()
    mine = tracks["id"].to_numpy() == large
    assert tracks["mass"].to_numpy()[mine].sum() == (labels == large).sum()
    assert (begin[0], end[-1]) == (0, N - 1)
    said = {word for line in tracks["words"].to_pylist() for word in line.split()}
    assert said >= {"oil", "cup", "vote", "storm", "bank"}


def test_cutting_and_restoring_change_nothing(model):
    twin, row = TextStream(lag=100, decay=200.0), 0
    for n in (1, 1, 700, 64, 2_000, 3, N):
        twin.learn_many(TEXTS[row : row + n])
        row += n
        twin = TextStream.from_bytes(twin.to_bytes())
    assert twin.trajectories() == model.trajectories()
    assert twin.summary() == model.summary()


def test_looking_changes_nothing(model):
    before = model.to_bytes()
    model.trajectories()
    assert model.to_bytes() == before


def test_plot_draws_a_layer_a_story(model):
    pytest.importorskip("matplotlib").use("Agg")
    import matplotlib.pyplot as plt

    ids = set(model.trajectories()["id"].to_pylist()) - {-1}
    ax = model.plot(stories=4)
    assert len(ax.collections) == min(4, len(ids))
    assert ax.texts
    TextStream().plot(ax=plt.figure().add_subplot())
    timed, start = TextStream(lag=100), datetime(2024, 1, 1)
    timed.learn_many(TEXTS[:1000], [start + timedelta(minutes=i) for i in range(1000)])
    for how in {}, {"dates": True}:
        low, high = timed.plot(**how).dataLim.intervalx
        assert low > 19_000  # days since 1970
        assert high - low < 1.0
    low, high = timed.plot(dates=False).dataLim.intervalx
    assert low > 1e9  # seconds
    same = TextStream()
    same.learn_many(pa.array(TEXTS[:300]), np.zeros(300))
    assert same.plot().collections


def test_examples_are_texts_with_the_words_of_their_story():
    """Of texts with four, two or one of a story's words among others, those with four."""
    rng = np.random.default_rng(1)
    rows = []
    for i in range(600):
        theme = THEMES[i % 3].split()
        n = (4, 2, 1)[rng.integers(3)]
        rows.append(" ".join([*rng.choice(theme, n, replace=False),
                              *(f"w{rng.integers(300)}" for _ in range(5 - n))]))  # fmt: skip
    model = TextStream(lag=100)
    model.learn_many(rows)
    large = sorted(model.summary().to_pylist(), key=lambda row: -row["rows"])[:3]
    for row in large:
        theme = next(set(t.split()) for t in THEMES if row["words"].split()[0] in t.split())
        assert len(row["examples"]) == len(set(row["examples"])) == 3
        assert all(theme <= set(text.split()) for text in row["examples"])
        assert row["born"] < row["last_seen"] < len(rows)
    assert sum(model.summary()["rate"].to_pylist()) == pytest.approx(1.0)


def test_names_lie_in_their_layers_and_keep_apart(model):
    pytest.importorskip("matplotlib").use("Agg")

    ax = model.plot()
    ax.figure.draw_without_rendering()
    boxes = {text.get_text(): text.get_window_extent() for text in ax.texts}
    assert len(boxes) > 3
    each = list(boxes.values())
    assert not any(a.overlaps(b) for i, a in enumerate(each) for b in each[:i])
    layers = {layer.get_label(): layer for layer in ax.collections}
    for name, box in boxes.items():
        outline = layers[name].get_paths()[0].transformed(ax.transData)
        corners = [(x, y) for x in (box.x0, box.x1) for y in (box.y0, box.y1)]
        assert outline.contains_points(corners).all()


def test_the_picture_has_a_scale_and_names_twelve_layers():
    pytest.importorskip("matplotlib").use("Agg")

    from streamddcrp.plots.palette import COLOURS
    from streamddcrp.plots.stream import plot_stories

    n, day = 20, 86_400.0
    rows = [(k, e * day, (e + 1) * day, k, 10 + k, f"word{k} $x_{k}") for e in range(10)
            for k in range(n)]  # fmt: skip
    names = ("epoch", "begin", "end", "id", "mass", "words")
    tracks = pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
    ax = plot_stories(tracks, set(range(n)), scale="dates")
    assert ax.get_ylabel() == "documents per day"
    per_day = sum(10 + k for k in range(n))
    top = max(part.get_paths()[0].vertices[:, 1].max() for part in ax.collections)
    assert top == pytest.approx(per_day)
    said = [text.get_text() for text in ax.get_legend().get_texts()]
    assert said[:2] == ["8 smaller ones (1,080)", "word19 $x_19 (290)"]
    assert len(said) == 13
    from matplotlib.colors import to_hex

    colours = [to_hex(part.get_facecolor()[0]).upper() for part in ax.collections]
    assert colours[:12] == list(COLOURS)
    assert not set(colours[12:]) & set(COLOURS)


def test_vectors_have_the_picture_of_texts():
    pytest.importorskip("matplotlib").use("Agg")
    rng = np.random.default_rng(0)
    about = rng.normal(size=(6, 32))
    X = about[rng.integers(3, size=1_500) + np.arange(1_500) // 500]
    X = X + rng.normal(0, 0.2, (1500, 32))
    model, twin, row = EmbeddingStream(lag=100), EmbeddingStream(lag=100), 0
    model.learn_many(X)
    for n in (1, 700, 3, 1_500):
        twin.learn_many(X[row : row + n])
        row += n
        twin = EmbeddingStream.from_bytes(twin.to_bytes())
    tracks = model.trajectories()
    assert twin.trajectories() == tracks
    labels = model.final_labels(window=True)["label"].to_numpy()
    for story in np.unique(labels[labels >= 0]):
        mine = tracks["id"].to_numpy() == story
        assert tracks["mass"].to_numpy()[mine].sum() == (labels == story).sum()
    assert len(model.plot(stories=4).collections) == min(4, len(set(labels[labels >= 0])))
