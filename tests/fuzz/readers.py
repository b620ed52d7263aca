"""``python -m tests.fuzz.readers``: mutated files for every reader, for some minutes.

Each file is read as a run reads it, in batches of three sizes and again from the middle; what comes
must be the same. It is read or refused with a `StreamDDCRPError`, in a process under limits of time
and memory. Files of options are read, and the model is made and learns some rows.
Ends with 1 where one crashed, hung, gave a traceback, or gave other rows in other batches.
"""

import argparse
import bz2
import gzip
import logging
import os
import shutil
import struct
import sys
import tempfile
import warnings
import zlib
from contextlib import closing
from functools import cached_property
from pathlib import Path

import click
import numpy as np

from streamddcrp.errors import StreamDDCRPError
from streamddcrp_connectors.run.columns import Columns, refusals
from streamddcrp_connectors.run.config import find_recipe
from streamddcrp_connectors.run.sources import open_source
from tests.connectors.data import WRITERS, rows
from tests.fuzz.run import campaign, end_with

CHOSEN = Columns("t", "k", ("a", "b"))
TOKENS = (
    b'"',
    b'""',
    b",",
    b"\n",
    b"\r\n",
    b"\r",
    b"\0",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"nan",
    b"inf",
    b"-Infinity",
    b"1e999",
    b"-1e400",
    b"1" * 400,
    b"0x10",
    b"1_000",
    b"1,5",
    b"null",
    b"true",
    b"{",
    b"}",
    b"[",
    b"]",
    b"{}",
    b"[[[[",
    b'{"a":' * 50,
    b":",
    b"\\u0000",
    b"\\ud800",
    b"\\",
    b"2024-02-30",
    b"2024-01-01T00:00:00Z",
    b"9999-12-31",
    b"-5e-324",
    b"9223372036854775808",
    b" ",
    b"\t",
    b";",
    b"#",
    b"a",
    b"t",
    b'"a"',
    b'"a": 1, "a": 2',
    b"x" * 5000,
    "é東".encode(),
    b"'''",
    b"=",
)
NUMBERS = (0, 1, -1, 2**31 - 1, -(2**31), 2**31, 2**63 - 1, -(2**63), 1 << 40)
OPTIONS = (
    'model = "seqddcrp"\nalpha = 0.5\ndecay = ["exponential", 20.0]\nwindow = 30\nwarmup = 20\n'
    'likelihood = ["normal_gamma", 0.0, 0.05, 1.5, 0.5]\nseason = ["day", 24.5]\n',
    'model = "temporal-dpm"\nepoch = "2h"\nlag = 2\ndecay = ["window", 3]\nwarmup = 10\n',
    'model = "text"\nlag = 30\ndecay = ["time", 15.0]\nstop_words = ["oil", "the"]\n',
    'model = "ddcrp"\nn_particles = 3\nseed = 7\ntime_unit = 1.5\n',
)


def mutate(data, rng):
    """Return bytes with one to four changes."""
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        at, size = int(rng.integers(len(data) + 1)), int(rng.integers(1, 40))
        how = rng.integers(9)
        if how == 0 and at < len(data):
            data[at] ^= 1 << int(rng.integers(8))
        elif how == 1 and at < len(data):
            data[at] = int(rng.integers(256))
        elif how == 2:
            del data[at : at + size]
        elif how == 3:
            data[at:at] = data[at : at + size] * int(rng.choice([1, 2, 50]))
        elif how == 4:
            data[at:at] = TOKENS[rng.integers(len(TOKENS))]
        elif how == 5:
            data[at : at + size] = TOKENS[rng.integers(len(TOKENS))]
        elif how == 6:
            del data[at:]
        elif how == 7:
            number = NUMBERS[rng.integers(len(NUMBERS))]
            form = "<i" if -(2**31) <= number < 2**31 and rng.random() < 0.5 else "<q"
            data[at : at + struct.calcsize(form)] = struct.pack(form, number)
        else:
            other = int(rng.integers(len(data) + 1))
            data[at : at + size] = data[other : other + size]
    return bytes(data)


class Reader:
    """A file of one format, and how it is read."""

    def __init__(self, name, make, folder):
        self.name, self._make, self._folder = name, make, folder

    @cached_property
    def original(self):
        path = self._folder / f"original.{self.name}"
        self._make(path)
        return path.read_bytes()

    def attempt(self, seed):
        """Mutate the file by a seed and read it; return outcome, message and what was done."""
        rng = np.random.default_rng([seed, zlib.crc32(self.name.encode())])
        path = self._folder / f"{os.getpid()}.{self.name}"
        path.write_bytes(mutate(self.original, rng))
        try:
            return *self.judge(path, rng), []
        except StreamDDCRPError as error:
            return "refused", str(error), []
        except MemoryError as error:
            return "out of memory", str(error), []
        except OSError as error:  # the command line reports it as it does a refusal
            return "error of the system", str(error), []
        except Exception as error:
            return "traceback on load", f"{type(error).__name__}: {error}", []
        finally:
            path.unlink(missing_ok=True)

    def judge(self, path, rng):
        columns = CHOSEN if rng.random() < 0.7 else Columns()
        whole, refused, _ = content(path, columns, 1000)
        for size in (1, 7):
            again, others, offsets = content(path, columns, size)
            if (again, others) != (whole, refused):
                return "other rows", f"in batches of {size} rows"
        if len(offsets) > 1:
            at = offsets[int(rng.integers(len(offsets) - 1))]
            rest, others, _ = content(path, columns, 1000, at)
            after = [r for r in refused if r[0] >= at["row"]]
            if (rest, others) != (whole[at["row"] :], after):
                return "other rows", f"after row {at['row']}"
        return ("read, some rows refused" if refused else "read"), ""


def content(path, columns, batch_rows, offset=None):
    """Return the rows of a file, those refused, and the offsets after its batches."""
    found, refused, offsets = [], [], []
    with closing(open_source(path, columns, batch_rows=batch_rows)) as source:
        for raw, at in source.read_after(offset):
            batch, marked = refusals(raw)
            first = at["row"] - batch.num_rows
            found += [repr(row) for row in batch.to_pylist()]
            refused += [(first + place, marked[place].reason) for place in sorted(marked)]
            offsets.append(at)
    return found, refused, offsets


class Options(Reader):
    """A file of options: the model is made, and learns some rows."""

    def judge(self, path, rng):
        model = find_recipe(str(path)).make()
        texts = type(model).__name__ == "TextStream"
        batch = ["oil price up"] * 40 if texts else rng.normal(size=(40, 2))
        model.learn_many(batch, t=1e3 * np.arange(40.0))
        type(model).from_bytes(model.to_bytes())
        return "read", ""


def readers(folder):
    """Return all that is read, with small files of 30 rows, some of which are refused."""
    some = rows(30, bad=0.1)
    typed = rows(30)
    text = {"csv": (some, WRITERS["csv"]), "jsonl": (some, WRITERS["jsonl"])}
    tables = {name: (typed, WRITERS[name]) for name in ("parquet", "arrow", "arrows")}

    def making(writer, table, pack=None):
        def make(path):
            writer(path, table)
            if pack is not None:
                path.write_bytes(pack(path.read_bytes()))

        return make

    found = [Reader(n, making(w, t), folder) for n, (t, w) in (text | tables).items()]
    found.append(Reader("csv.gz", making(WRITERS["csv"], some, gzip.compress), folder))
    found.append(Reader("jsonl.bz2", making(WRITERS["jsonl"], some, bz2.compress), folder))
    for i, options in enumerate(OPTIONS):

        def make(path, options=options):
            path.write_text(options, encoding="utf-8")

        found.append(Options(f"{i}.toml", make, folder))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--most", type=int)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--only", default="", help="ending of the names of files")
    parser.add_argument("--seed", type=int, help="try this one here, without a process of its own")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable()
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    folder = Path(tempfile.mkdtemp(dir=memory))
    try:
        chosen = [r for r in readers(folder) if r.name.endswith(given.only)]
        if given.seed is not None:
            for reader in chosen:
                click.echo(f"{reader.name}: {reader.attempt(given.seed)}")
            return
        for reader in chosen:  # loads what is needed before the fork
            path = folder / f"first.{reader.name}"
            path.write_bytes(reader.original)
            assert reader.judge(path, np.random.default_rng(0))[0].startswith("read"), reader.name
        sys.exit(end_with(campaign(chosen, 60.0 * given.minutes, given.first, given.most), "files"))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
