"""A small model with the runner's interface; its results depend on every bit and on the order."""

import struct

import numpy as np
import pyarrow as pa
from river import base

from streamddcrp import Event
from streamddcrp.checkpoint import decode_state, encode_state
from streamddcrp.errors import ConfigError, OrderError, SchemaError

MASK = (1 << 64) - 1


class Toy(base.Base):
    """Mix each row into a 64-bit number; refuse negative values and time running backwards.

    It looks for time running backwards in the whole batch before it looks at the values: an awkward
    order for whoever has to find out which row is to blame.
    """

    def __init__(self, *, alpha=0.1, decay=("exponential", 8.0), warmup=3):
        self.alpha = alpha
        self.decay = decay
        self.warmup = warmup
        if not alpha > 0:
            message = f"alpha must be positive, got {alpha}"
            raise ConfigError(message)
        self.mixed = 1
        self.n = 0
        self.last = -np.inf
        self.happened = []

    def events(self):
        reported, self.happened = self.happened, []
        return [Event(*event) for event in reported]

    @property
    def n_tables(self):
        return min(self.n, 5)

    def step_many(self, batch, t=None):
        X = np.column_stack(
            [column.cast("double").to_numpy(zero_copy_only=False) for column in batch.columns]
        )
        times = np.arange(self.n, self.n + len(X)) if t is None else np.asarray(t)
        times = times.astype(float)
        before = np.concatenate([[self.last], times[:-1]])
        self._refuse(times < before, OrderError, "time runs backwards", batch)
        self._refuse((X < 0).any(axis=1), SchemaError, "a value is negative", batch)
        rows = [self._learn(x, time) for x, time in zip(X, times, strict=True)]
        names = ["label", "label_prob", "score", "p_new", "p_change", "n_tables"]
        kinds = [pa.int64(), *[pa.float64()] * 4, pa.int64()]
        columns = [pa.array([row[i] for row in rows], kind) for i, kind in enumerate(kinds)]
        return pa.record_batch(columns, names=names)

    def _refuse(self, bad, kind, reason, batch):
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            message = f"row {row}: {reason}"
            raise kind(message, row=row)

    def _learn(self, x, time):
        for value in (time, *x.tolist()):
            (bits,) = struct.unpack("<Q", struct.pack("<d", value))
            self.mixed = (self.mixed * 6364136223846793005 + bits + 1442695040888963407) & MASK
        if self.mixed % 7 < 2:
            into = self.n - 1 if self.mixed % 7 else None
            self.happened.append(["merge" if into else "birth", self.n, self.n, time, into])
        self.n += 1
        self.last = time
        part = (self.mixed >> 11) / 2**53
        early = self.n <= self.warmup
        score = None if early else 10 * part
        return (
            self.mixed % 7,
            part,
            score,
            None if early else part,
            None if early else 1 - part,
            self.n_tables,
        )

    def to_bytes(self):
        numbers = np.array([self.mixed], dtype=np.uint64)
        settings = {"n": self.n, "last": self.last, "alpha": self.alpha, "warmup": self.warmup}
        settings["happened"] = self.happened
        return encode_state("toy", 1, {"mixed": numbers}, settings)

    @classmethod
    def from_bytes(cls, blob):
        arrays, settings = decode_state(blob, "toy")
        model = cls(alpha=settings["alpha"], warmup=settings["warmup"])
        model.mixed = int(arrays["mixed"][0])
        model.n, model.last = settings["n"], settings["last"]
        model.happened = settings["happened"]
        return model
