"""Any use of a keyed model equals separate models; a crash goes back to the last save."""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from streamddcrp import Keyed, SeqDDCRP
from streamddcrp.errors import OrderError, SchemaError

OPTIONS = {
    "likelihood": ("gamma_poisson", 1.0, 0.1),
    "time_unit": 1.0,
    "window": 4,
    "sweep_every": 2,
    "max_tables": 3,
}
KEYS = st.sampled_from("abcde")
ROWS = st.lists(st.tuples(KEYS, st.sampled_from([0, 1, 2, 30])), max_size=12)
MEMORY = {"one model": 1, "two models": 150_000, "three models": 200_000, "all models": "1GB"}


class KeyedAgainstSeparateModels(RuleBasedStateMachine):
    """Learning in batches and rows, refused batches, saves, restarts and crashes."""

    @initialize(memory=st.sampled_from(sorted(MEMORY)))
    def start(self, memory):
        self.folder = tempfile.TemporaryDirectory()
        self.options = {
            "by": "key",
            "memory_limit": MEMORY[memory],
            "store": Path(self.folder.name, "store"),
        }
        self.fleet = Keyed(SeqDDCRP(**OPTIONS), **self.options)
        self.models = {}
        self.saved = {}
        self.n_rows = 0

    def of(self, key):
        if key not in self.models:
            self.models[key] = SeqDDCRP(**OPTIONS)
        return self.models[key]

    def batch(self, rows):
        keys, values = zip(*rows, strict=True) if rows else ((), ())
        table = pa.table({"n": pa.array(values, pa.int64()), "key": pa.array(keys, pa.string())})
        return table, np.arange(self.n_rows, self.n_rows + len(rows), dtype=float)

    @rule(rows=ROWS, size=st.integers(1, 5))
    def step_many(self, rows, size):
        table, t = self.batch(rows)
        chunked = pa.Table.from_batches(table.to_batches(max_chunksize=size), table.schema)
        out = self.fleet.step_many(chunked, t)
        assert out.schema.names[:3] == ["key", "time", "label"]
        expected = []
        for (key, n), time in zip(rows, t, strict=True):
            step = self.of(key).step_many(pa.table({"n": [n]}), [time])
            expected.append({"key": key, **step.to_pylist()[0]})
        assert out.to_pylist() == expected
        self.n_rows += len(rows)

    @rule(rows=ROWS)
    def learn_many(self, rows):
        table, t = self.batch(rows)
        self.fleet.learn_many(table, t)
        for (key, n), time in zip(rows, t, strict=True):
            self.of(key).learn_one({"n": n}, time)
        self.n_rows += len(rows)

    @rule(key=KEYS, n=st.integers(0, 3))
    def learn_one(self, key, n):
        self.fleet.learn_one({"n": n, "key": key}, float(self.n_rows))
        self.of(key).learn_one({"n": n}, float(self.n_rows))
        self.n_rows += 1

    @rule(rows=ROWS, key=KEYS, more=ROWS)
    def refused(self, rows, key, more):
        table, t = self.batch([*rows, (key, -1), *more])
        with pytest.raises(
            SchemaError, match=f"row {len(rows)}, key '{key}': column 'n'"
        ) as caught:
            self.fleet.learn_many(table, t)
        assert caught.value.row == len(rows)

    @rule(rows=ROWS, key=KEYS)
    def too_late(self, rows, key):
        table, t = self.batch([*rows, (key, 1), (key, 1)])
        t[-1] = -1.0
        with pytest.raises(OrderError, match=f"row {len(t) - 1}, key '{key}': time -1.0 is before"):
            self.fleet.step_many(table, t)

    @rule(key=KEYS)
    def predict(self, key):
        x = {"n": 2}
        model = self.models.get(key, SeqDDCRP(**OPTIONS))
        assert self.fleet.predict_one({**x, "key": key}) == model.predict_one(x)
        assert self.fleet.predict_proba_one({**x, "key": key}) == model.predict_proba_one(x)
        score = self.fleet.score_one({**x, "key": key})
        assert score == pytest.approx(model.score_one(x), nan_ok=True, rel=0)

    @rule()
    def events(self):
        found = [(event.key, event.kind, event.label, event.t) for event in self.fleet.events()]
        assert found == [
            (key, event.kind, event.label, event.t)
            for key, model in sorted(self.models.items())
            for event in model.events()
        ]

    @rule()
    def save(self):
        self.fleet.save(cursor=self.n_rows)
        self.saved = {key: model.to_bytes() for key, model in self.models.items()}
        self.n_rows_saved = self.n_rows

    @rule()
    def crash(self):
        """What SQLite keeps of a store that is left open and of one that is closed is the same."""
        self.fleet.close()
        self.fleet = Keyed(SeqDDCRP(**OPTIONS), **self.options)
        self.models = {key: SeqDDCRP.from_bytes(blob) for key, blob in self.saved.items()}
        self.n_rows = self.fleet.cursor or 0

    @rule()
    def copied(self):
        path = Path(self.folder.name, "copy")
        self.fleet.save(path)
        with Keyed.load(path) as copy:
            assert copy.keys == self.fleet.keys
            for key, model in self.models.items():
                assert copy.model_of(key).to_bytes() == model.to_bytes()

    @rule()
    def equal(self):
        assert self.fleet.keys == sorted(self.models)
        for key, model in self.models.items():
            assert self.fleet.model_of(key).to_bytes() == model.to_bytes()

    def teardown(self):
        if hasattr(self, "fleet"):
            self.equal()
            self.fleet.close()
            self.folder.cleanup()


TestKeyedAgainstSeparateModels = KeyedAgainstSeparateModels.TestCase
TestKeyedAgainstSeparateModels.settings = settings(stateful_step_count=15)
