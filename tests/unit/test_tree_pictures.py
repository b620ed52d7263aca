"""Pictures of trees: what is on them."""

import numpy as np
import pyarrow as pa
import pytest

plt = pytest.importorskip("matplotlib.pyplot")

from streamddcrp.models.trees.pictures import plot_component_tree, plot_growth, plot_topic_tree  # noqa: E402


def node(number, size, children=(), words=("oar", "mast")):
    return {
        "id": number, "weight": float(size), "words": [(word, 0.1) for word in words],
        "vector": np.arange(4.0) - number, "children": list(children),
    }  # fmt: skip


@pytest.fixture
def tree():
    one = node(1, 8, [node(3, 5, words=("hull", "sail")), node(4, 3, words=())])
    return node(0, 12, [one, node(2, 4)])


def texts(ax):
    return [text.get_text() for text in ax.texts]


def test_topics_show_words_and_sizes(tree):
    ax = plot_topic_tree(tree)
    shown = texts(ax)
    assert "hull sail" in shown
    assert {"12", "8", "5", "3", "4"} <= set(shown)
    assert "5 topics of 12 documents (numbers: documents)" in shown
    assert len(ax.patches) == 4  # a band to every node but the root
    same = plot_topic_tree(tree, ax)
    assert same is ax


def test_words_of_a_tree_keep_off_each_other_and_the_links():
    """Also where they are long: a level is as wide as its longest text."""
    long = ("internationalisation", "telecommunications", "W" * 28)
    below = [node(10 + k, 5, words=long) for k in range(6)]
    inner = [node(1 + k, 15, below[3 * k : 3 * k + 3], words=long) for k in range(2)]
    ax = plot_topic_tree(node(0, 1_000_000, inner, words=long))
    ax.figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in ax.texts]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    for patch in ax.patches:  # a band begins where the words of its level have ended
        start = ax.transData.transform(patch.get_path().vertices[0])
        assert not any(box.x0 < start[0] < box.x1 and box.y0 < start[1] < box.y1 for box in boxes)
    right = ax.figure.bbox.x1
    assert max(box.x1 for box in boxes) <= right


def test_the_smallest_of_many_leaves_are_left_out():
    leaves = [node(k, k) for k in range(2, 72)]
    ax = plot_topic_tree(node(0, 100, [node(1, 100, leaves)]))
    shown = texts(ax)
    assert "12" in shown
    assert "11" not in shown
    assert any("the 10 smallest leaves are not drawn" in text for text in shown)


def test_a_root_alone_can_be_drawn():
    shown = texts(plot_topic_tree(node(0, 0, words=())))
    assert "1 topic of 0 documents (numbers: documents)" in shown


def test_components_are_images_with_the_mean_before_them(tree):
    ax = plot_component_tree(tree | {"mean": np.arange(4.0)})
    assert len(ax.images) == 6
    assert ax.images[0].get_array().shape == (2, 2)
    assert {"mean", "+", "level 1", "level 3", "12"} <= set(texts(ax))
    rows = plot_component_tree(tree, shape=(1, 4))
    assert len(rows.images) == 5
    assert rows.images[0].get_array().shape == (1, 4)


def test_growth_adds_up_to_all_nodes_born():
    growth = {"row": [64, 128], "n_nodes": [5, 7], "births": [6, 12], "merges": [1, 2]}
    ax = plot_growth(pa.table(growth | {"prunes": [1, 4]}))
    assert texts(ax) == ["7 alive", "2 merged into another", "4 pruned"]
    assert ax.get_xlim() == (0.0, 128.0)
    empty = {name: pa.array([], pa.int64()) for name in ("row", "n_nodes", "merges", "prunes")}
    assert texts(plot_growth(pa.table(empty))) == ["1 alive"]
