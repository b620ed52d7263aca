"""``python -m tests.fuzz.living``: clusters that live for ever and get new values for ever.

One case for each class and kind of rows, in a process of its own, in batches, events and final
labels read on the way. Said are the CPU time of a row after a fifth of the stream and at its end,
what the process takes then, and the arrays of the state that grew. Ends with 1 where a row at the
end takes more than 1.1 times as long, the process 16 MiB more, or an array grew.
"""

import argparse
import logging
import re
import sys
import time
import warnings
from functools import partial

import click
import numpy as np
import pyarrow as pa

from streamddcrp import Keyed
from streamddcrp.checkpoint import decode_state
from tests.conformance.streams import Stream
from tests.fuzz.rows import GROWTH, memory, one_each, tenths
from tests.fuzz.run import in_child

STEP = 500  # rows of a batch
SLOWER = 1.1
WORDS = [["oil", "barrel", "opec", "price"], ["goal", "cup", "team", "match"],
         ["vote", "party", "poll", "seat"], ["rain", "storm", "wind", "cloud"]]  # fmt: skip


def living(case, first, n):
    """Rows of four clusters, a quarter each, in the form of a case; times and parents go on."""
    rng, i = np.random.default_rng(first), np.arange(first, first + n)
    like = case.stream(1)
    side = {name: [like.side[name][0]] * n for name in like.side if name != "parents"}
    if "parents" in like.side:
        side["parents"] = [[k - 1] if k else [] for k in i.tolist()]
    t = None if case.times == "none" else i // 8 * 1.0
    return Stream(_rows(case, like.rows, rng, i), t, side)


def _rows(case, like, rng, i):
    """Return rows like others; documents have a word that no other has."""
    z, n = rng.integers(0, 4, len(i)), len(i)
    if isinstance(like, pa.Table):
        names = [name for name in like.column_names if name != "key"]
        key = {"key": pa.array(np.array(["p", "q", "r"])[i % 3])}
        if "text" in names:
            return pa.table(key | {"text": _texts(rng, z, i)})
        X = 9.0 * z[:, None] + rng.normal(size=(n, len(names)))
        return pa.table(key | dict(zip(names, map(pa.array, X.T), strict=True)))
    if isinstance(like, list):
        is_tokens = case.name.startswith("LinkLanguageModel")
        return [f"w{k % 7}" for k in z + i // 50] if is_tokens else _texts(rng, z, i)
    if like.dtype.kind == "i" and like.ndim == 2:
        X = rng.poisson(0.5, (n, like.shape[1]))
        X[np.arange(n), z % like.shape[1]] += 9
        return X
    if like.dtype.kind == "i":
        return (z + i // 50) % 7
    if like.ndim == 1:
        return rng.normal(size=n)
    if set(np.unique(like)) <= {0.0, 1.0}:
        return 1.0 * (rng.random((n, like.shape[1])) < (np.arange(like.shape[1]) % 4 == z[:, None]))
    centre = 9.0 * np.random.default_rng(0).normal(size=(4, like.shape[1]))
    return centre[z] + rng.normal(size=(n, like.shape[1]))


def _texts(rng, z, i):
    return [
        " ".join([*rng.choice(WORDS[k], 4), f"day{number // 300}", f"new{number}"])
        for k, number in zip(z, i.tolist(), strict=True)
    ]


def follow(case, n_rows, seconds):
    """Return rows, CPU us a row after a fifth of them and at the end, MiB of both, and what grew.

    Both are timed by turns, on models that were stored then, so that both meet the same load. What
    grew are arrays of the state, with their sizes, that are larger at the end than in the first
    half by more than one doubling of what has room to spare.
    """
    model, n, sizes, looks, stored = case.make(), 0, [], [], []
    every, end = max(1, n_rows // STEP // 50), time.process_time() + seconds
    while n < n_rows and time.process_time() < end:
        case.step(model, living(case, n, STEP))
        n += STEP
        getattr(model, "events", list)()
        getattr(model, "final_labels", list)()
        sizes.append(memory() / 2**20)
        if len(sizes) % every == 0:
            looks.append(sizes_of(model))
        if not stored and (n >= n_rows / 5 or time.process_time() > end - 0.8 * seconds):
            stored.append((n, model.to_bytes(), []))
    stored.append((n, model.to_bytes(), []))
    for first, blob, spent in 5 * stored:
        copy, rows = type(model).from_bytes(blob), living(case, first, STEP)
        begun = time.process_time()
        case.step(copy, rows)
        spent.append((time.process_time() - begun) / STEP * 1e6)
    grown = {}
    for name, size in looks[-1].items() if looks else ():
        before = max((look.get(name, 0) for look in looks[: len(looks) // 2]), default=0)
        if size > 2 * before + 4096:
            grown[name] = before, size
    early, late = (float(np.median(spent)) for *_, spent in stored)
    return n, early, late, *tenths(sizes), grown


def sizes_of(model):
    """Return the bytes of the arrays of a state, by name; of a store of states, all of it."""
    blob = model.to_bytes()
    if isinstance(model, Keyed):
        return {"store": len(blob)}
    arrays, _ = decode_state(blob, type(model).__name__)
    return {name: array.nbytes for name, array in arrays.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="for each case")
    parser.add_argument("--seconds", type=float, default=1e4, help="most CPU time for each case")
    parser.add_argument("--minutes", type=float, default=1e4, help="of CPU time for all cases")
    parser.add_argument("--only", default="", help="pattern of the names of cases")
    given = parser.parse_args()
    logging.disable()
    warnings.simplefilter("ignore")
    bad, cases = 0, [case for case in one_each() if re.search(given.only, case.name)]
    seconds = min(given.seconds, 60.0 * given.minutes / max(len(cases), 1))
    for case in cases:
        found, ended = in_child(partial(follow, case, given.rows, seconds))
        if ended:
            bad += 1
            click.echo(f"{case.name}: {ended}")
            continue
        rows, early, late, small, large, grown = found
        wrong = late > SLOWER * early or large > small + GROWTH / 2**20 or grown
        bad += bool(wrong)
        click.echo(
            f"{case.name}: {rows:,} rows, {early:.1f} then {late:.1f} us a row "
            f"({late / early:.2f}), {small:.0f} then {large:.0f} MiB{' <--' * bool(wrong)}"
            f"{'; grown: ' * bool(grown)}{grown or ''}"
        )
    click.echo(f"{len(cases)} cases, {bad} of them slower or larger at the end")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
