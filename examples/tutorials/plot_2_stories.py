"""
Follow stories in news
======================

Headlines come from many sources and belong to stories that no one has listed: which story is
this one about, is it a new one, which are growing, which have ended?

The headlines here are made up, so that we know the true stories and the page needs no download.
They have what real ones have: each story its few words, other words around them, stories that
begin and end, and an agency that signs everything it writes.
"""

# %%
# A week of headlines
# -------------------

from datetime import UTC, datetime, timedelta

import numpy as np

rng = np.random.default_rng(7)
MONDAY = datetime(2026, 3, 2, tzinfo=UTC)
SUBJECTS = [
    "coast earthquake rescue tremor survivors rubble",
    "bank rates inflation governor economy cut",
    "cup final penalty striker goalkeeper trophy",
    "storm flood river evacuation levee rain",
    "airline strike pilots flights cancelled union",
    "vaccine trial virus doctors hospital dose",
    "election ballot candidate recount senate vote",
    "oil tanker spill harbour cleanup barrels",
    "rocket launch orbit satellite crew countdown",
    "museum theft painting police stolen canvas",
    "chip factory exports semiconductor tariff supply",
    "wildfire forest smoke firefighters acres wind",
]
AROUND = ["says", "report", "after", "new", "first", "more", "plan", "talks", "week", "fears"]
COMMON = ["city", "people", "group", "leader", "state", "market", "world", "team", "show"]

headlines, true, when = [], [], []
for story, words in enumerate(SUBJECTS):
    begin, length = rng.uniform(0, 130), rng.uniform(20, 60)  # hours
    for hour in begin + length * np.sort(rng.beta(1.2, 2.5, 60)):
        own = rng.choice(words.split(), 3, replace=False)
        chosen = rng.permutation([*own, *rng.choice(AROUND, 2), rng.choice(COMMON)])
        signature = ["pressline"] if rng.random() < 0.5 else []
        headlines.append(" ".join([*chosen, *signature]).capitalize())
        true.append(story)
        when.append(MONDAY + timedelta(hours=float(hour)))
order = np.argsort(when)
headlines, true, when = ([values[i] for i in order] for values in (headlines, true, when))
print(len(headlines), "headlines, for example:", *headlines[:3], sep="\n  ")

# %%
# One pass
# --------

from streamddcrp import TextStream

model = TextStream()
out = model.step_many(headlines, when)

# %%
# ``label`` is what was said at once. A text is looked at again ``lag`` texts later, in the
# light of what came since; ``final_labels`` has the labels of those that are still to come out.

final = model.final_labels(window=True)
print(final.schema.names)

from sklearn.metrics import adjusted_rand_score

at_once = adjusted_rand_score(true, out["label"].to_numpy())
print(f"agreement with the true stories at once: ARI {at_once:.2f}")

# %%
# Half of the headlines are signed by one agency. Such words say nothing about the rest of a
# text. The model finds them without a list and sets them aside:

print(*sorted(model.boilerplate, key=model.boilerplate.get, reverse=True)[:8])

# %%
# The stories
# -----------

stories = model.summary().sort_by([("rows", "descending")])
for story in stories.to_pylist()[:8]:
    print(story["rows"], "texts:", *story["words"].split()[:5])

# %%
# And their time line: the river of stories, each as thick as it is busy.

model.plot()

# %%
# What began, came back, was merged, or ended:

for event in model.events()[:8]:
    hour = when[event.index].strftime("%a %H:%M")
    print(hour, event.kind, "of story", event.label)

# %%
# From here: :doc:`/text` says what a word is, how broad a story is (``scale=``), and how it
# compares. The same on the command line, with a page to read at the end::
#
#     streamddcrp run news.parquet --text title --time at --sink out.parquet
#     streamddcrp report out.parquet --source news.parquet --text title --time at
