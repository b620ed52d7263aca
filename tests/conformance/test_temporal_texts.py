"""TemporalDPM of texts: forms, what is refused, words that are forgotten."""

import math

import numpy as np
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer

from streamddcrp import TemporalDPM
from streamddcrp.errors import CheckpointError, SchemaError
from tests.conformance.laws import same
from tests.conformance.streams import epochs_of_texts


def test_words_that_nobody_uses_are_forgotten():
    rng = np.random.default_rng(8)
    model, sizes = TemporalDPM(lag=1, n_sweeps=1), []
    for day in range(300):
        story = day // 10
        model.learn_many([
            " ".join(f"story{story}x{w}" for w in rng.integers(0, 60, 8)) for _ in range(20)
        ])  # fmt: skip
        model.final_labels()
        sizes.append(len(model._stream.vocabulary))
    assert max(sizes) < 1300  # of 1,800 in all
    assert model.n_tables < 30
    other = TemporalDPM.from_bytes(model.to_bytes())
    assert same(other, model)
    assert model.summary()["words"][0].as_py().startswith("story29x")


def test_counts_of_words_are_texts_too():
    documents, t = epochs_of_texts(10).both
    words = [text.split() for text in documents]
    counts = [{w: row.count(w) for w in row} for row in words]
    expected = TemporalDPM(likelihood="text")
    expected.learn_many(documents, t)
    tokens = TemporalDPM(likelihood="text")
    tokens.learn_many(words, t)
    assert same(tokens, expected)
    by_counts = TemporalDPM(likelihood="text")
    by_counts.learn_many(counts, t)
    assert by_counts.objective == pytest.approx(expected.objective, rel=1e-9)
    names = sorted({w for row in words for w in row})
    dense = np.array([[row.count(w) for w in names] for row in words])
    arrays = []
    for form in (dense, sparse.csr_array(dense), pa.table(dict(zip(names, dense.T, strict=True)))):
        model = TemporalDPM(likelihood="text")
        model.learn_many(form, t)
        arrays.append(model.objective)
    assert arrays == pytest.approx([expected.objective] * 3, rel=1e-9)


def test_a_refused_text_changes_nothing():
    documents, t = epochs_of_texts(12).both
    model = TemporalDPM(likelihood="text")
    for start in (0, 20):
        before = model.to_bytes()
        for bad in (None, 3.0, ["a", None], {"a": -1}, {"a": math.nan}, {"a": None}):
            with pytest.raises(SchemaError, match="row 1") as refused:
                model.learn_many(["new words", bad], [t[start]] * 2)
            assert refused.value.row == 1
        with pytest.raises(SchemaError, match="row 1, column 'text': missing"):
            model.learn_many(pa.table({"text": ["a", None]}), [t[start]] * 2)
        with pytest.raises(SchemaError, match="one column of texts"):
            model.learn_many(pa.table({"text": ["a"], "x": [1.0]}), [t[start]])
        with pytest.raises(SchemaError, match="list"):
            model.learn_many("only one", [t[start]])
        assert model.to_bytes() == before
        model.learn_many(documents[start : start + 20], t[start : start + 20])
    with pytest.raises(SchemaError, match="likelihood='text'"):
        TemporalDPM().learn_many([{"a": 1}])


def test_odd_texts_are_never_lost():
    model = TemporalDPM()
    out = model.step_many(["", "", "alpha", "", "alpha beta"])
    assert np.isfinite(out["score"].to_numpy()).all()
    for _ in range(3):
        model.step_many(["alpha"] * 3 + [""])
    model.step_many([""])
    assert model.final_labels(window=True).num_rows == 18
    assert math.isfinite(model.objective)
    alone = TemporalDPM(likelihood="text")
    alone.learn_many([])
    alone.learn_many(["word"])
    assert alone.final_labels(window=True).to_pydict() == {"row": [0], "epoch": [1], "label": [0]}


def test_texts_are_drawn_as_a_stream():
    pytest.importorskip("matplotlib").use("Agg")
    model = TemporalDPM(warmup=10)
    model.plot()
    model.learn_many(*epochs_of_texts(18).both)
    model.close()
    ids = set(model.trajectories()["id"].to_pylist())
    ax = model.plot()
    assert len(ax.collections) == len(ids)
    assert len(ax.texts) <= min(len(ids), 16)


def test_a_period_in_another_unit_is_suspected(caplog):
    model = TemporalDPM(epoch="1d", likelihood="text")
    t = np.linspace(0.0, 40.0, 21_000)  # days, not seconds
    model.learn_many(["oil"] * 19_000, t[:19_000])
    assert not caplog.records
    model.learn_many(["oil"] * 2_000, t[19_000:])
    assert "in the unit of the times" in caplog.records[0].message
    model.learn_many(["oil"] * 10, np.full(10, 40.0))
    assert len(caplog.records) == 1


def test_words_of_both_kinds_are_stored():
    model = TemporalDPM(epoch=("rows", 3))
    for row in ["oil price", {0: 3, 1: 2}, {"cup": 1, 2: 1}] * 4:
        model.learn_one(row)
    assert same(model, TemporalDPM.from_bytes(model.to_bytes()))


def test_counts_of_a_vectorizer():
    documents, t = epochs_of_texts(12).both
    vectorizer = CountVectorizer().fit(documents)
    expected, model = TemporalDPM(), TemporalDPM()
    for first in range(0, len(t), 7):  # cut anywhere
        part = slice(first, first + 7)
        expected.learn_many(documents[part], t[part])
        X = vectorizer.transform(documents[part])
        out = model.step_many(X, t[part])
        assert out.num_rows == X.shape[0]
    assert model.objective == pytest.approx(expected.objective, rel=1e-9)
    labels = [m.final_labels(window=True)["label"].to_pylist() for m in (model, expected)]
    assert labels[0] == labels[1]
    names = vectorizer.get_feature_names_out()
    first = model.summary()["words"].to_pylist()[0].split()
    assert names[int(first[0])] in expected.summary()["words"].to_pylist()[0].split()
    assert same(TemporalDPM.from_bytes(model.to_bytes()), model)
    before = model.to_bytes()
    bad = sparse.csr_array(np.array([[1.0, 0.0], [0.0, -2.0]]))
    with pytest.raises(SchemaError, match=r"row 1, column 1: .* is not a count"):
        model.learn_many(bad, t[-2:])
    assert model.to_bytes() == before


def test_words_of_a_vectorizer():
    analyze = CountVectorizer(ngram_range=(1, 2)).build_analyzer()
    model = TemporalDPM()
    model.learn_many([analyze("oil price up"), analyze("oil price down"), analyze("cup final")])
    assert "oil price" in model.summary()["words"].to_pylist()[0].replace("  ", " ")
    assert TemporalDPM(epoch="2 weeks")._cut == TemporalDPM(epoch="14d")._cut


def repeated(seed=3):
    """Texts of 12 epochs, with copies of earlier ones of the epoch; t; the first of each text."""
    rng = np.random.default_rng(seed)
    texts, t, first = [], [], []
    for day in range(12):
        begin, words = len(texts), [f"day{day // 4}x{w}" for w in range(12)]
        for _ in range(15):
            if len(texts) > begin and rng.random() < 0.5:
                i = int(rng.integers(begin, len(texts)))
                texts.append(" ".join(rng.permutation(texts[i].split())))
                first.append(first[i])
            else:
                story = f"story{rng.integers(3)}"
                texts.append(" ".join([*(f"{story}x{w}" for w in rng.integers(0, 30, 6)),
                                       str(rng.choice(words)), f"text{len(texts)}"]))  # fmt: skip
                first.append(len(first))
            t.append(float(day))
    return texts, np.array(t), np.array(first)


def test_copies_of_an_epoch_count_once():
    """Models are those of the texts without copies, which have the labels of the first ones."""
    texts, t, first = repeated()
    one, other = TemporalDPM(lag=2), TemporalDPM(lag=2)
    new = first == np.arange(len(first))
    out = one.step_many(texts, t)
    alone = other.step_many(
        [text for text, is_new in zip(texts, new, strict=True) if is_new], t[new]
    )
    for name in ("label", "label_prob", "score", "p_new", "p_change", "n_tables"):
        assert out[name].to_numpy()[new].tolist() == alone[name].to_numpy().tolist()
    assert out["label"].to_numpy().tolist() == out["label"].to_numpy()[first].tolist()
    assert (out["p_new"].to_numpy()[~new] == 0.0).all()
    labels = one.final_labels(window=True)
    assert labels["row"].to_pylist() == [*range(len(texts))]
    assert labels["epoch"].to_pylist() == t.astype(int).tolist()
    labels = labels["label"].to_numpy()
    assert labels[new].tolist() == other.final_labels(window=True)["label"].to_pylist()
    assert labels.tolist() == labels[first].tolist()
    summary, without = one.summary(), other.summary()
    assert set(without["copies"].to_pylist()) == {0}
    assert summary.drop_columns("copies").equals(without.drop_columns("copies"))
    copies = dict(zip(summary["id"].to_pylist(), summary["copies"].to_pylist(), strict=True))
    assert sum(copies.values()) > 20
    assert copies == {i: int((labels[~new] == i).sum()) for i in copies}


@pytest.mark.parametrize("size", [1, 7, 40])
def test_copies_survive_restarts_and_are_predicted_as_learned(size):
    texts, t, first = repeated(4)
    whole, model = TemporalDPM(lag=2), TemporalDPM(lag=2)
    expected = whole.step_many(texts, t)
    for a in range(0, len(texts), size):
        predicted = model.predict_one(texts[a], t[a]), model.score_one(texts[a], t[a])
        out = model.step_many(texts[a : a + size], t[a : a + size])
        assert out.equals(expected.slice(a, size))
        if a:
            assert predicted == (out["label"][0].as_py(), out["score"][0].as_py())
            model = TemporalDPM.from_bytes(model.to_bytes())
    assert same(model, whole)
    copy = int(np.flatnonzero(first != np.arange(len(first)))[-1])
    assert (
        whole.predict_proba_one(texts[copy], t[copy])[whole.predict_one(texts[copy], t[copy])] > 0
    )


def test_stored_rows_of_copies_are_checked():
    texts, t, _ = repeated(5)
    model = TemporalDPM(lag=2)
    model.learn_many(texts[:-3], t[:-3])
    arrays, meta = model._state()
    assert len(arrays["model.copies.row"]) > 0
    for row in ([-1, 0], [1, 0], [0, 5]):
        wrong = arrays | {"model.copies.row": arrays["model.copies.row"].copy()}
        wrong["model.copies.row"][:2] = row
        with pytest.raises(CheckpointError, match="copies"):
            TemporalDPM._from_state(wrong, meta)
    wrong = arrays | {"model.copies.epoch": arrays["model.copies.epoch"] + 1}
    with pytest.raises(CheckpointError, match="copies"):
        TemporalDPM._from_state(wrong, meta)
