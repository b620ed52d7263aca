"""Say why three streams are surprising, and draw it: docs/why.md.

Run: python examples/why_did_it_say_that.py [FOLDER FOR THE PICTURES]

Needs the Skoltech and Numenta benchmarks and Reuters-21578 (shared/data beside the checkout, or the
folder that the environment variable STREAMDDCRP_SHARED names); what is not there is skipped.
"""

import os
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pyarrow.parquet as pq

from streamddcrp import SeqDDCRP, TextStream

mpl.use("Agg")

SHARED = os.environ.get("STREAMDDCRP_SHARED") or Path(__file__).resolve().parents[2] / "shared/data"


def valve():
    """Return explanations of the first minute in which a valve of a pump is being closed."""
    table = pq.read_table(Path(SHARED) / "skab" / "skab.parquet", filters=[("run", "=", "0")])
    times, faulty = table["datetime"].to_numpy(), table["anomaly"].to_numpy()
    rows = table.drop_columns(["group", "run", "seq", "datetime", "anomaly", "changepoint"])
    first = int(np.argmax(faulty))
    model = SeqDDCRP()
    model.learn_many(rows.slice(0, first), times[:first])
    return model.explain_many(rows.slice(first, 60), times[first : first + 60])


def new_year():
    """Return the explanation of the half-hour of taxis in New York after midnight of a New Year."""
    path = Path(SHARED) / "nab" / "nab.parquet"
    table = pq.read_table(path, filters=[("series", "=", "nyc_taxi")])
    times, values = table["timestamp"].to_numpy(), table["value"].to_numpy()
    at = int(np.searchsorted(times, np.datetime64("2015-01-01T01:00")))
    model = SeqDDCRP()
    model.learn_many({"passengers": values[:at]}, times[:at])
    return model.explain_one({"passengers": values[at]}, times[at])


def headline():
    """Return the explanation of a title: which of its words the stories so far do not have."""
    path = Path(SHARED) / "reuters21578" / "reuters_to_1987_03.parquet"
    titles = pq.read_table(path, columns=["title"])["title"].to_pylist()
    model = TextStream()
    model.learn_many(titles[:5500])
    return model.explain_one("FED MAY SUPPLY RESERVES IN THE MONEY MARKETS")


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "demo")
    folder.mkdir(parents=True, exist_ok=True)
    for name, case in (("valve", valve), ("new-year", new_year), ("headline", headline)):
        try:
            why = case()
        except FileNotFoundError as error:
            print(f"{name}: {error}")
            continue
        print(f"{name}: {why if name != 'valve' else max(why, key=lambda row: row.excess)}")
        why.plot().savefig(folder / f"why-{name}.png", dpi=120, bbox_inches="tight")


if __name__ == "__main__":
    main()
