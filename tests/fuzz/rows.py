"""``python -m tests.fuzz.rows``: adversarial rows for every case of the conformance suite.

Each case learns the same segments three times over: row by row, each row timed; in batches of any
size, saved and loaded on the way; and, where rows are refused, as a batch that must be refused as a
whole and change nothing. Afterwards both models must be the same to the bit. What is asserted
stands in `Trial`. Each case has a process of its own. Ends with 1 where something was found.

A long stream for every public class, a tenth of it row by row:
``--one-each --rows 1000000 --seconds 3000 --minutes 600 --alone 0.1``.
"""

import argparse
import collections
import json
import logging
import math
import os
import re
import sys
import time
import traceback
import warnings
from functools import partial
from pathlib import Path

import click
import numpy as np
import pyarrow as pa
from tqdm import tqdm

from streamddcrp.errors import StreamDDCRPError
from tests.conformance.cases import CASES
from tests.conformance.laws import restored
from tests.fuzz.adversary import Adversary, without
from tests.fuzz.run import in_child

ROW = 0.1  # seconds of CPU time that a row may take
WARM = 600  # rows after which a model is warm
GROWTH = 16 << 20  # bytes by which a process may be larger in the last tenth than in the second
BY_STEP = ("TemporalDPM", "NestedCRP")  # learn many rows at a time: there it is the mean of a row
DEAR = ("Keyed",)  # some hundred models: saved before a tenth of the segments, and looked at after
VIEWS = ("summary", "trajectories", "growth", "tree", "recent_labels", "final_labels", "prior")


def memory():
    """Return the bytes that this process has in memory."""
    fields = Path("/proc/self/statm").read_text(encoding="ascii").split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


def tenths(sizes):
    """Return the largest size in the second tenth of a stream, and in the last."""
    n = len(sizes)
    return max(sizes[n // 10 : n // 5 + 1], default=0), max(sizes[n - n // 10 - 1 :], default=0)


class Trial:
    """A case under attack: what it took, and what was found.

    ``alone`` is the share of segments that are learned row by row as well; others are where a
    batch is refused, or took so long that a single row may have been slow.
    """

    def __init__(self, case, seed, *, width=None, alone=1.0, kind=None):
        self.case, self.seed, self.alone = case, seed, alone
        self.foe = Adversary(case, seed, width=width, kind=kind)
        self.rng = np.random.default_rng(seed + 1)
        self.single, self.batched = case.make(), case.make()
        self.dear = case.name.startswith(DEAR)
        self.saved, self.since = b"", []  # a state, and the segments learned since
        self.behind = False  # whether the model of single rows has not learned all
        self.learned, self.refused, self.slowest = 0, 0, 0.0
        self.timed, self.spent = 0, 0.0  # single rows, and seconds that they took
        self.in_batch, self.took = 0, 0.0  # rows in batches, and seconds that they took
        self.slow_kind, self.kinds = "", collections.Counter()
        self.sizes, self.states, self.found = [], [], []

    def note(self, what, kind):
        """Keep what was found, once for a kind."""
        entry = {"case": self.case.name, "seed": self.seed, "kind": kind, "found": what}
        self.found.append(entry | {"row": self.foe.at})

    def go(self, n_rows, seconds, bar):
        """Learn so many rows, or for so many seconds of CPU time."""
        end, far = time.process_time() + seconds, min(0.1 * n_rows, 4_000)
        while (left := n_rows - self.learned - self.refused) > 0 and time.process_time() < end:
            n = min(int(self.rng.integers(1, 400)), left)
            kind, stream = self.foe.segment(n, last=left - n <= far)
            self.kinds[kind.partition(";")[0]] += 1
            try:
                self.segment(kind, stream)
            except Exception:
                self.note(traceback.format_exc(limit=-6), kind)
                return
            bar.update(n)
            if len(self.found) > 5:
                return
        if self.behind:
            self.single = restored(self.batched)
        self.compare("at the end")
        self.odd_rows()
        self.measure()

    def segment(self, kind, stream):
        """Learn a segment in batches, and by single rows where that is due; look at the models."""
        if not (self.dear and self.since and self.rng.random() > 0.1):
            self.saved, self.since = self.batched.to_bytes(), []
            self.states.append(len(self.saved))
        refused, alone, slow = set(), self.rng.random() < self.alone, False
        if not alone:
            try:
                slow = self.in_batches(kind, stream)
            except StreamDDCRPError:
                self.batched, alone = self.before(), True
        if alone or slow:
            if self.behind:
                self.single = self.before()
            refused = self.one_by_one(kind, stream)
        self.behind = not (alone or slow)
        if refused:
            self.refuse(kind, stream, refused)
        if alone:
            self.in_batches(kind, without(stream, refused))
        self.learned += len(stream) - len(refused)
        self.refused += len(refused)
        self.since.append(without(stream, refused))
        if (alone or slow) and not (self.dear and self.rng.random() > 0.1):
            self.since = []  # reading events changes the models
            for model in self.batched, self.single:
                self.views(model, kind)
        self.sizes.append(memory())
        if self.rng.random() < 0.2:
            self.batched = restored(self.batched)
        if not self.behind and self.rng.random() < 0.1:
            self.compare(kind)

    def before(self):
        """Return the model of batches as it was before this segment."""
        model = type(self.batched).from_bytes(self.saved)
        for stream in self.since:
            self.case.step(model, stream)
        return model

    def in_batches(self, kind, stream):
        """Learn rows in up to three batches; tell whether one may have been slow."""
        begun, usual = time.thread_time(), self.took / max(1, self.in_batch)
        cuts = np.sort(self.rng.integers(0, len(stream) + 1, self.rng.integers(0, 3)))
        for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True):
            self.sane(self.case.step(self.batched, stream[a:b]), kind)
        took = time.thread_time() - begun
        self.in_batch += len(stream)
        self.took += took
        return self.in_batch > WARM and took > ROW + len(stream) * usual

    def one_by_one(self, kind, stream):
        """Learn rows one by one; return the places of those refused."""
        case, refused = self.case, set()
        for i in range(len(stream)):
            x, more = stream.one(i)
            begun = time.thread_time()
            try:
                case.learn_one(self.single, x, more)
            except StreamDDCRPError:
                refused.add(i)
            took = time.thread_time() - begun
            self.spent += took
            self.timed += 1
            if took > self.slowest and self.learned + i > WARM:
                self.slowest, self.slow_kind = took, kind
        return refused

    def refuse(self, kind, stream, refused):
        """A batch with rows that are refused is refused as a whole, and says where."""
        before = self.batched.to_bytes()
        try:
            self.case.step(self.batched, stream)
        except StreamDDCRPError as error:
            row = getattr(error, "row", None)
            if row not in refused:
                self.note(f"row {row} is named, {sorted(refused)[:3]} refused: {error}", kind)
            if self.batched.to_bytes() != before:
                self.note("a refused batch has changed the model", kind)
        else:
            self.note(f"the batch was taken, rows {sorted(refused)[:3]} alone were not", kind)
            self.batched = restored(self.single)

    def sane(self, out, kind):
        """No NaN, nothing infinite, probabilities between 0 and 1."""
        for name in out.schema.names:
            if pa.types.is_floating(out[name].type):
                values = out[name].drop_null().to_numpy()
                if name == "threshold":  # infinite as long as it is not known
                    values = values[values != np.inf]
                if not np.isfinite(values).all():
                    self.note(f"{name}: {values[~np.isfinite(values)][:3]}", kind)
                if name in ("label_prob", "p_new", "p_change") and len(values):
                    low, high = values.min(), values.max()
                    if low < 0.0 or high > 1.0 + 1e-12:
                        self.note(f"{name}: from {low} to {high}", kind)

    def views(self, model, kind):
        """What can be read of the model holds no NaN and no negative spread."""
        for name in VIEWS:
            view = getattr(model, name, None)
            if callable(view):
                self.look_into(name, view(), kind)
        for name in ("objective", "nbytes"):
            value = getattr(model, name, 0.0)
            keyed = self.case.name.startswith("Keyed")  # some key may be in warm-up
            young = math.isnan(value) and (keyed or not len(model.summary()))
            if not math.isfinite(value) and not young:
                self.note(f"{name}: {value}", kind)
        if hasattr(model, "events"):
            model.events()

    def look_into(self, name, found, kind):
        if not isinstance(found, pa.Table | pa.RecordBatch):
            return
        for column in found.schema.names:
            if pa.types.is_floating(found[column].type):
                values = found[column].drop_null().to_numpy()
                if not np.isfinite(values).all():
                    self.note(f"{name}, {column}: {values[~np.isfinite(values)][:3]}", kind)
                spread = column.startswith(("sd_", "var_", "std_", "weight", "prob", "length"))
                if spread and (values < 0.0).any():
                    self.note(f"{name}, {column}: {values.min()}", kind)

    def compare(self, kind):
        """Both models, and what is loaded of one, are the same."""
        if names := self.case.differences(self.batched, self.single):
            self.note(f"differs between cuttings: {names}", kind)
            self.batched = restored(self.single)
        loaded = restored(self.single)
        if names := self.case.differences(loaded, self.single):
            self.note(f"differs when loaded: {names}", kind)

    def odd_rows(self):
        """Rows of other columns and things that are no rows: refused, or learned as they are."""
        x, more = self.foe.segment(1)[1].one(0)
        odd = [
            {}, None, [], 3, "x", {"nobody": 1.0}, {None: 1.0}, {0: "x"}, {0: []}, {0: 10**400},
            {0: 1j}, {"a" * 10**6: 1.0}, {(): 2}, {0: b"1"}, {0: {}}, b"x", object(),
        ]  # fmt: skip
        if isinstance(x, dict):
            odd += [x | {"nobody": 1.0}, dict(list(x.items())[1:]), dict(reversed(x.items()))]
            odd += [dict.fromkeys(x, v) for v in (None, 10**400, "1", True, -(2**63), 2**64)]
        for row in odd:
            before = self.single.to_bytes()
            try:
                self.case.learn_one(self.single, row, more)
                self.views(self.single, f"odd row {row!r:.60}")
            except StreamDDCRPError:
                if self.single.to_bytes() != before:
                    self.note("a refused row has changed the model", f"odd row {row!r:.60}")
            except Exception:
                self.note(traceback.format_exc(limit=-3), f"odd row {row!r:.60}")
            if self.case.differences(restored(self.single), self.single):
                self.note("differs when loaded", f"odd row {row!r:.60}")

    def measure(self):
        """The slowest row, and memory."""
        by_step = self.case.name.startswith(BY_STEP)
        if (self.spent / max(1, self.timed) if by_step else self.slowest) > ROW:
            self.note(f"a row took {1e3 * self.slowest:.0f} ms", self.slow_kind)
        if len(self.sizes) > 10:
            early, late = tenths(self.sizes)
            if late - early > GROWTH:
                self.note(f"memory: {early / 2**20:.0f} MiB, then {late / 2**20:.0f} MiB", "")
            early, late = tenths(self.states)
            if late > 2 * early + 200_000:  # rooms are powers of two
                self.note(f"state: {early:,} bytes, then {late:,}", "")

    def report(self):
        (early, late), (small, large) = tenths(self.sizes), tenths(self.states)
        return {
            "case": self.case.name, "learned": self.learned, "refused": self.refused,
            "kinds": len(self.kinds), "alone": self.timed,
            "mean_ms": 1e3 * self.spent / max(1, self.timed),
            "batch_ms": 1e3 * self.took / max(1, self.in_batch),
            "slowest_ms": 1e3 * self.slowest, "slow_kind": self.slow_kind,
            "early_mib": early / 2**20, "late_mib": late / 2**20,
            "early_state": small, "late_state": large, "found": self.found,
        }  # fmt: skip


def attack(case, seed, rows, seconds, width=None, alone=1.0, kind=None):
    """Attack a case; return what came of it."""
    logging.disable()
    try:
        with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
            trial = Trial(case, seed, width=width, alone=alone, kind=kind)
            with tqdm(
                total=rows, desc=case.name, unit=" rows", mininterval=1.0, leave=False
            ) as bar:
                trial.go(rows, seconds, bar)
            return trial.report()
    finally:
        logging.disable(logging.NOTSET)


def one_each():
    """Return the first case of each class, and the first on texts or words."""
    found = {}
    for case in CASES:
        found.setdefault((type(case.make()), isinstance(case.stream(1).rows, list)), case)
    return [*found.values()]


def table(came):
    """Return the lines of a table of what came of each case."""
    lines = [
        "| case | learned | refused | one by one | slowest row, CPU | memory | state | found |",
        "|---|---|---|---|---|---|---|---|",
    ]
    row = (
        "| {case} | {learned:,} | {refused:,} | {alone:,} | {slowest_ms:.0f} ms, {slow_kind}; "
        "mean {mean_ms:.3f}, in batches {batch_ms:.3f} | {early_mib:.0f} then {late_mib:.0f} MiB | "
        "{early_state:,} then {late_state:,} | {n} |"
    )
    return lines + [
        row.format(**one, n=len(one["found"])) if "learned" in one
        else f"| {one['case']} | ended | | | | | | 1 |"
        for one in came
    ]  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000, help="for each case")
    parser.add_argument("--seconds", type=float, default=10.0, help="most CPU time for each case")
    parser.add_argument("--minutes", type=float, default=10.0, help="in all, by the clock")
    parser.add_argument("--only", default="", help="pattern of the names of cases")
    parser.add_argument(
        "--one-each", action="store_true", help="one case for each class and kind of rows"
    )
    parser.add_argument("--alone", type=float, default=1.0, help="share learned row by row too")
    parser.add_argument("--width", type=int, help="columns, where they are free")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="file for all that came of it, as JSON lines")
    given = parser.parse_args()
    chosen = one_each() if given.one_each else CASES
    chosen = [case for case in chosen if re.search(given.only, case.name)]
    begun, all_that_came = time.monotonic(), []
    for case in chosen:
        if time.monotonic() - begun > 60.0 * given.minutes:
            break
        options = given.seed, given.rows, given.seconds, given.width, given.alone
        came, ended = in_child(partial(attack, case, *options))
        if ended:
            came = {"case": case.name, "found": [{"case": case.name, "found": ended}]}
        all_that_came.append(came)
        for entry in came["found"]:
            click.echo(f"{entry}".replace("\\n", "\n      "))
        if given.out:
            with given.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(came) + "\n")
    click.echo("\n".join(table(all_that_came)))
    n_found = sum(len(came["found"]) for came in all_that_came)
    click.echo(f"{len(all_that_came)} of {len(chosen)} cases: {n_found} found")
    sys.exit(n_found > 0)


if __name__ == "__main__":
    main()
