"""``python -m tests.fuzz.calls``: wrong values for every argument of every public callable.

A subject is a class, a function, a method of a class, or a model with its methods, as it is before
any row, in its first rows, and later. Each call has good arguments, but one or two of which are
wrong. Nothing but a `StreamDDCRPError`, or a `TypeError` that names an argument that the signature
does not have, may leave it; and a model that refused a call is as it was.
"""

import argparse
import contextlib
import datetime
import decimal
import fractions
import inspect
import io
import sys
import tempfile
import traceback
import warnings
import zlib
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pyarrow as pa
from scipy import sparse

import streamddcrp
from streamddcrp import likelihoods
from streamddcrp.errors import StreamDDCRPError
from tests.conformance.cases import CASES
from tests.fuzz.run import campaign, end_with

UTC = datetime.UTC
SCALARS = (
    None, True, False, -1, 0, 1, 2, 3, 10**400, -(2**63), 2**63 - 1, 0.5, -0.5, 2.5, np.nan, np.inf,
    -np.inf, 1e308, -1e308, 1e-320, 1j, decimal.Decimal("0.1"), fractions.Fraction(1, 3), "", "x",
    "auto", "day", "1d", "1 fortnight", "\0", "é" * 99, b"x", object(), ..., np.float64("nan"),
    np.int8(3), np.bool_(1), np.datetime64("NaT"), np.datetime64("2024-01-01"), pd.NaT, pd.NA,
    datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 1, tzinfo=UTC),
    datetime.date(2024, 1, 1), datetime.timedelta(days=1), range(3), int, lambda *_: 1.0,
    lambda *_: "x", lambda *_: np.zeros(2), NotImplemented, slice(3),
)  # fmt: skip
DTYPES = (
    "f8", "f4", "f2", ">f8", "i8", "i1", "u8", "?", "c16", "O", "U3", "S3", "M8[ns]", "m8[s]",
    "f16", "V4", "i4,f8",
)  # fmt: skip
SHAPES = ((), (0,), (1,), (3,), (5,), (0, 2), (3, 0), (1, 2), (3, 2), (5, 3), (2, 3, 4), (1, 1, 1))
COLUMNS = (
    [1.0, 2.0, 3.0], [1, None, 3], [None, None, None], ["a", "b", "c"], ["a", None, "c"],
    [[1.0], [2.0], []], [{"x": 1}, {"x": 2}, None], [b"a", b"b", b"c"], [True, False, None],
    [1.0, np.nan, np.inf], [1e308, -1e308, 0.0], [datetime.datetime(2024, 1, d) for d in (1, 2, 3)],
    [decimal.Decimal("1.5"), None, decimal.Decimal("2")],
)  # fmt: skip
LEFT_OUT = ("mutate", "clone", "load", "save", "from_config", "close")  # river's; files; by class
IN_BATCHES = ("learn_many", "step_many", "fit", "fit_predict", "explain_many", "score_many")
MANY = {"n_sweeps", "burn_in", "n_starts", "max_sweeps", "n_draws", "n_chains", "n"}


def wrong(rng, depth=0):
    """Return a value of any kind."""
    kind = rng.integers(0, 10 if depth < 2 else 3)
    if kind < 4:
        return SCALARS[rng.integers(len(SCALARS))]
    if kind == 4:
        return [wrong(rng, depth + 1) for _ in range(rng.integers(0, 4))]
    if kind == 5:
        inside = [wrong(rng, depth + 1) for _ in range(rng.integers(0, 4))]
        with contextlib.suppress(TypeError):
            return [tuple, iter, set, np.ma.masked_array][rng.integers(0, 3)](inside)
        return tuple(inside)
    if kind == 6:
        names = ["a", "b", 0, 1, "key", "text", "", None, 2.5, ("a",)]
        picked = rng.integers(0, len(names), rng.integers(0, 4))
        return {names[i]: wrong(rng, depth + 1) for i in picked}
    if kind == 7:
        return array(rng)
    if kind == 8:
        return table(rng)
    things = [
        streamddcrp.SeqDDCRP, streamddcrp.TextStream, streamddcrp.Alarm,
        lambda: streamddcrp.SeqDDCRP,
        lambda: streamddcrp.Keyed(streamddcrp.SeqDDCRP(), by="key"),
        lambda: streamddcrp.Distances.by_index(3), lambda: likelihoods.Likelihood,
        lambda: likelihoods.BetaBernoulli(1.0, 1.0), lambda: streamddcrp.BaseMeasure.uniform(3),
        lambda: streamddcrp.Distances, lambda: ("exponential", wrong(rng, 2)),
        lambda: (wrong(rng, 2), 3.0), lambda: ("normal_gamma", 0.0, 1.0, wrong(rng, 2), 1.0),
        lambda: ("rows", wrong(rng, 2)), lambda: ("gamma", 1.0, wrong(rng, 2)),
        lambda: io.StringIO("a"), lambda: np.random.default_rng(0),
    ]  # fmt: skip
    try:
        return things[rng.integers(len(things))]()
    except StreamDDCRPError:
        return None


def array(rng):
    dtype, shape = DTYPES[rng.integers(len(DTYPES))], SHAPES[rng.integers(len(SHAPES))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        values = np.ones(shape, dtype) if dtype[0] not in "V" else np.zeros(shape, dtype)
        if rng.random() < 0.5 and values.size and dtype in ("f8", "f4", "O", "i8"):
            odd = [-1, 0, 2, 7, np.nan, np.inf, 1e300, "x", None][: 9 if dtype == "O" else 7]
            odd = odd[:4] if dtype == "i8" else odd
            values.flat[rng.integers(values.size)] = odd[rng.integers(len(odd))]
    if rng.random() < 0.1 and values.ndim == 2 and dtype in ("f8", "i8", "?"):
        return sparse.csr_array(values)
    return np.ma.masked_array(values) if rng.random() < 0.05 else values


def table(rng):
    column = pa.array(COLUMNS[rng.integers(len(COLUMNS))])
    form = rng.integers(0, 7)
    if form == 0:
        return column
    if form == 1:
        return pa.chunked_array([column, column])
    if form == 2:
        return column.to_pandas()
    names = [["a"], ["key"], ["text"], ["0"], [""]][rng.integers(5)]
    made = pa.table([column], names=names)
    if form == 3:
        return pd.concat([made.to_pandas()] * 2, axis=1)
    if form == 4:
        return pa.table([column, column], names=["a", "a"])
    return made if form == 5 else made.slice(0, 0).to_pandas()


@dataclass
class Subject:
    """Something to be called, with good arguments; what is left out of them takes its default.

    ``calls`` has them by the name of the method, "*" for all others, "" for the subject itself.
    """

    name: str
    make: Any  # returns what has the methods, or is called itself
    calls: dict[str, dict[str, Any]] = field(default_factory=dict)
    kept: bool = False  # whether it must be the same after a call that was refused

    @cached_property
    def ready(self):
        return self.make()

    @cached_property
    def methods(self):
        if "" in self.calls:
            return [""]
        names = [name for name in dir(type(self.ready)) if not name.startswith("_")]
        return [name for name in names if name not in LEFT_OUT]

    def attempt(self, seed):
        """Return an outcome, a message, and the call."""
        rng, said = np.random.default_rng([seed, zlib.crc32(self.name.encode())]), []
        thing = self.ready
        before = thing.to_bytes() if self.kept else b""
        method = self.methods[rng.integers(len(self.methods))]
        outcome, message = self.call(thing, method, rng, said)
        if self.kept and thing.to_bytes() != before:
            del self.ready
            outcome = "changed by what it refused" if outcome == "refused" else outcome
        return outcome, message, said

    def call(self, thing, method, rng, said):
        try:
            target = getattr(thing, method) if method else thing
        except StreamDDCRPError as error:
            return "refused", str(error)
        except Exception as error:
            return "bare error", traceback.format_exc(limit=-4) + f"{error!r}"
        if not callable(target):
            return "done", ""
        parameters = inspect.signature(target).parameters.values()
        named = [p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        good = self.calls.get(method, self.calls.get("*", {}))
        given = {name: value for name, value in good.items() if name in named or not method}
        for _ in range(1 + (rng.random() < 0.2)):
            if named:
                name = named[rng.integers(len(named))]
                value = wrong(rng)
                if name in MANY and isinstance(value, int) and value > 2:
                    value = 1
                given[name] = value
        if rng.random() < 0.02:
            given["optoin"] = 1
        said += [method or self.name, {k: f"{v!r:.80}" for k, v in given.items()}]
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                came = target(**given)
                if inspect.isgenerator(came):
                    list(came)
        except StreamDDCRPError as error:
            return ("refused", str(error)) if str(error) else ("bare error", "without a word")
        except TypeError as error:
            if "argument" in str(error) and any(f"'{n}'" in str(error) for n in {*named, *given}):
                return "refused", str(error)
            return "bare error", traceback.format_exc(limit=-4)
        except Exception:
            return "bare error", traceback.format_exc(limit=-4)
        return "done", ""


def of_models():
    """Models of the conformance suite: before any row, in the first ones, later; one a class."""
    seen, mine = {}, []
    for case in CASES:
        kind = type(case.make()).__name__
        seen[kind] = seen.get(kind, 0) + 1
        if seen[kind] > 1 + (kind in ("SeqDDCRP", "TemporalDPM")):
            continue
        for when, share in (("before rows", 0.0), ("first rows", 0.1), ("later", 0.7)):
            stream = case.stream(1)
            stream = stream.untimed if case.times == "none" else stream
            cut = int(share * len(stream))
            x, more = stream.one(cut)
            rest = stream[cut : cut + 4]
            batch = dict.fromkeys(("X", "batch", "scores", "documents"), rest.rows) | rest.more
            one = {"x": x, "token": x, "score": x if isinstance(x, float) else 1.0, **more}
            calls = {"*": {**batch, **one}, **dict.fromkeys(IN_BATCHES, batch)}
            make = partial(case.learned, stream[:cut]) if cut else case.make
            mine.append(Subject(f"{case.name}, {when}", make, calls, kept=True))
    return mine


def of_classes():
    """What makes instances: the classes themselves, and their methods that do so."""
    first = {
        "Keyed": {"model": streamddcrp.SeqDDCRP(), "by": "key"}, "Seasonal": {"period": 24.0},
        "RegimeAnomalyDetector": {"model": streamddcrp.SeqDDCRP()},
    }  # fmt: skip
    good = {
        "n": 5, "n_words": 5, "probs": [0.5, 0.5], "t": [1.0, 2.0], "Z": [[1.0], [2.0]],
        "documents": ["a b", "c"], "graph": [[1], [0]], "D": [[0.0, 1.0], [1.0, 0.0]], "config": {},
        "function": lambda i, j: abs(i - j), "blob": b"x", "path": "/nowhere",
        "base_measure": streamddcrp.BaseMeasure.uniform(3),
    }  # fmt: skip
    mine = []
    for name in streamddcrp.__all__:
        cls = getattr(streamddcrp, name)
        for method, value in inspect.getmembers(cls) if inspect.isclass(cls) else ():
            made = isinstance(inspect.getattr_static(cls, method), classmethod | staticmethod)
            if made and not method.startswith("_"):
                wanted = good.keys() & inspect.signature(value).parameters.keys()
                calls = {"": {k: good[k] for k in wanted}}
                mine.append(Subject(f"{name}.{method}", partial(getattr, cls, method), calls))
        if inspect.isclass(cls):
            mine.append(
                Subject(name, partial(getattr, streamddcrp, name), {"": first.get(name, {})})
            )
    return mine


def of_functions():
    rng = np.random.default_rng(0)
    X = np.r_[rng.normal(0, 1, (6, 1)), rng.normal(9, 1, (6, 1))]
    few = {"n_chains": 1, "n_sweeps": 2, "burn_in": 1, "seed": 0}
    family = ("normal_gamma", 0.0, 0.05, 1.5, 0.5)
    decay = ("exponential", 3.0)
    docs = ["oil price opec", "goal cup", "oil opec", "cup goal team"]
    labels = np.array([[0, 0, 1], [0, 1, 1]])
    base = streamddcrp.BaseMeasure.from_counts(docs)
    corpus = streamddcrp.Corpus.from_documents(docs, base_measure=base)
    good = {
        "alpha_for": {"decay": decay, "distances": 10, "n_tables": 3.0},
        "calibrate": {
            "model": streamddcrp.GraphCRP(likelihood=family, alpha=1.0, n_particles=2),
            "n_rows": 3, "n_simulations": 20},
        "change_points": {"p_change": [0.1, 0.95, 0.2]},
        "count_regimes": {"model": streamddcrp.SeqDDCRP(likelihood=family).fit(X)},
        "estimate_evidence": {
            "model": streamddcrp.GraphCRP(likelihood=family, n_particles=2), "X": X, "n_runs": 2},
        "evidence_surface": {"corpus": corpus, "decays": [decay], "alphas": [1.0]},
        "fit_language": {"corpus": corpus},
        "fit_nested_components": {"X": X, "max_sweeps": 2},
        "fit_nested_topics": {"documents": docs, "n_starts": 1, "max_sweeps": 1},
        "fit_seqddcrp": {"X": X, "likelihood": family, "alpha": 1.0, "decay": decay},
        "fit_temporal_dpm": {"epochs": [X[:6], X[6:]], "max_sweeps": 2},
        "label_changes": {"labels": [0, 0, 1, 1], "hold": 1},
        "labels_of_links": {"links": [0, 0, 2]},
        "point_estimate": {"labels": labels, "n_starts": 2},
        "prior_summary": {"alpha": 1.0, "decay": decay, "distances": 10, "n_draws": 3},
        "race": {"scores": {"a": [1.0, 2.0], "b": [0.5, 2.5]}},
        "relocate_changes": {"changes": [50], "signal": np.sin(np.arange(100.0)), "within": 9},
        "sample_ddcrp": {"X": X, "likelihood": family, "alpha": 1.0, "decay": decay, **few},
        "sample_graph_crp": {"X": X, "likelihood": family, "edges": [[0, 1]], **few},
        "sample_graph_ibp": {"X": X, "graph": 2, **few},
        "sample_group_dp": {"X": X, "group": list("aabbccaabbcc"), "likelihood": family, **few},
        "sample_nested_topics": {"documents": np.eye(3, dtype=int) + 1, "thin": 1, **few},
        "sample_temporal_dpm": {"epochs": [X[:6, :1], X[6:, :1]], "thin": 1, **few},
        "similarity_matrix": {"labels": labels},
    }  # fmt: skip
    names = [n for n in streamddcrp.__all__ if inspect.isfunction(getattr(streamddcrp, n))]
    assert {*names} == {*good}
    return [Subject(n, partial(getattr, streamddcrp, n), {"": good[n]}) for n in names] + [
        Subject(f"result of {n}", partial(getattr(streamddcrp, n), **good[n]))
        for n in names
        if n.startswith(("fit_", "sample_"))
    ]


def subjects(only=""):
    mpl.use("agg")
    found = of_functions() + of_classes() + of_models()
    return [s for s in found if only in s.name]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--minutes", type=float, default=1e3)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    mine = subjects(given.only)
    for subject in mine:
        _ = subject.ready
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):  # wrong paths, too
        tally = campaign(mine, 60 * given.minutes, given.first, given.calls)
    sys.exit(end_with(tally, "calls"))


if __name__ == "__main__":
    main()
