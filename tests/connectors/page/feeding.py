"""A page's process that is fed by hand, as the runner would."""

import json
import time
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pyarrow as pa

from streamddcrp import Alarm
from streamddcrp_connectors.page.observer import LivePage
from streamddcrp_connectors.run.columns import Columns
from streamddcrp_connectors.run.loop import Epoch, Summary
from streamddcrp_connectors.run.models import Rows

FEATURES = ("flow", "pressure", "heat")
START = np.datetime64("2026-03-01T08:00", "ms")
NO_EVENTS = pa.record_batch({"kind": pa.array([], pa.string())})


class Feeder:
    """Rows of a made-up machine, and the page that shows them."""

    def __init__(self, folder=None, *, features=FEATURES, key=None, text=False, at="127.0.0.1:0"):
        self.columns = Columns("at", key, features, text)
        self.page = LivePage(at, folder)
        self.address = self.page.address
        self.alarm = Alarm()
        self.n = 0

    @property
    def port(self):
        return urlsplit(self.address).port

    @property
    def token(self):
        return parse_qs(urlsplit(self.address).query)["token"][0]

    def feed(self, n, *, keys=None, texts=None, events=NO_EVENTS, stories=None):
        """Hand over ``n`` rows that are learned now; a regime lasts 200 of them."""
        rows, results = self.batch(n, keys, texts)
        judged = self.alarm.step_many(results.column("score").to_numpy(), keys=keys)
        models = Stories(stories or [])
        epoch = Epoch(
            rows,
            results,
            events,
            None,
            0,
            models,
            Summary("machine.csv"),
            0.0,
            judged,
            self.alarm.calibrating,
        )
        self.page.epoch(epoch)
        self.n += n

    def batch(self, n, keys=None, texts=None):
        number = np.arange(self.n, self.n + n)
        rng = np.random.default_rng(self.n)
        label = number // 200 % 5
        times = START + 100 * number.astype("timedelta64[ms]")
        cells = {"at": pa.array(times).cast(pa.timestamp("ns"))}
        key = {} if keys is None else {"key": pa.array(keys)}
        if keys is not None:
            cells[self.columns.key] = key["key"]
        for d, name in enumerate(self.columns.features):
            values = 10.0 * label * (d + 1) + rng.normal(size=n)
            cells[name] = pa.array(values if texts is None else texts)
        batch = pa.record_batch(cells)
        score = rng.exponential(size=n)
        results = pa.record_batch(
            {"row": number, "time": cells["at"], **key, "label": label, "score": score}
        )
        return Rows(number, batch, self.columns), results

    def happen(self, *events):
        """Return events: (kind, label, number of the row, the other label)."""
        kinds, labels, rows, into = zip(*events, strict=True)
        times = START + 100 * np.array(rows).astype("timedelta64[ms]")
        return pa.record_batch(
            {
                "time": pa.array(times),
                "kind": pa.array(kinds),
                "label": pa.array(labels),
                "into": pa.array(into, pa.int64()),
                "earliest": pa.array(
                    times - np.timedelta64(100, "ms"), mask=np.array(kinds) == "merge"
                ),
                "latest": pa.array(times, mask=np.array(kinds) == "merge"),
            }
        )

    def at_rate(self, rate, seconds, every=0.05):
        """Feed for a while, at a rate."""
        begun, done = time.monotonic(), 0
        while (passed := time.monotonic() - begun) < seconds:
            if int(passed * rate) > done:
                n = int(passed * rate) - done
                self.feed(n)
                done += n
            time.sleep(max(every, 0.5 / rate))


class Stories:
    """A model that says what its stories are."""

    def __init__(self, stories):
        self.stories = stories

    def counts(self):
        return [0.0, 0.25, 0.75]

    def themes(self):
        return {}

    def summary(self):
        return pa.table({"id": [], "words": []} if not self.stories else
                        pa.Table.from_pylist(self.stories).to_pydict())  # fmt: skip


def message(feeder, **content):
    """Return a request of a browser with all that it needs."""
    return json.dumps(content), {"Cookie": f"streamddcrp-{feeder.port}={feeder.token}"}
