"""The models that the laws of `test_laws` are tried on: one or a few cases for each public class.

A new model needs a `Case` here, and nothing else, to be held to every law that it can be held to.
"""

import math
from functools import partial
from importlib.util import find_spec

import numpy as np

from streamddcrp import Alarm, RegimeAnomalyDetector, SeqDDCRP, TextStream
from streamddcrp.decay import Exponential
from streamddcrp.models.temporal.emissions.drift import GaussianDrift
from streamddcrp.models.temporal.emissions.text import TextDecay
from tests.conformance import forms, kinds, streams
from tests.conformance.case import Case, Flat, Refusal
from tests.conformance.forms import river_counts, river_rows
from tests.conformance.kinds import ddcrp, graph, group_dp, ibp, seqddcrp, temporal, temporal_texts
from tests.conformance.streams import Stream

GAUSSIAN = ("normal_gamma", 0.0, 0.05, 1.5, 0.5)
OWN_PAST = ("autoregression", 2)
WISHART = ("normal_wishart", 0.0, 0.05, 1.0, 8.0)
KNOWN = GaussianDrift.known(*(np.full(2, value) for value in (0.0, 36.0, 0.06, 1.0)))
LONG = partial(streams.levels, 3, 20_000)
TWICE = Flat(LONG, times=(False, True))
FIXED_ALPHA = {"warmup": 5, "n_particles": 6, "alpha": 0.5}
FEW = {"max_tables": 3, "max_groups": 2, "alpha": ("gamma", 1.0, 1.0)}
PARENTS = {"stream": streams.with_parents, "lacks": {"keyed"}}
HOLES = kinds.BY_NAME | {"stream": streams.with_holes, "examples": 10}
FEW_TEXTS = {"stream": streams.few_epochs_of_texts, "examples": 5}

# Without the package of their lists, languages are not recognised.
LANGUAGES = [
    kinds.text_stream(
        "languages", {"lag": 30, "decay": 40.0, "stop_words": "auto"},
        stream=streams.german_texts, river=river_counts, fails=kinds.ROOM,
    )
] if find_spec("stop_words") else []  # fmt: skip

CASES = [
    seqddcrp("auto", {"warmup": 15, "window": 12, "sweep_every": 4}, wait=8, river=river_rows),
    seqddcrp("default", {}, wait=8, flat=None, river=river_rows, examples=10),
    seqddcrp("plain", {"likelihood": GAUSSIAN, "recall": False, "window": 10}, river=river_rows),
    seqddcrp(
        "window decay",
        {"decay": ("window", 7), "warmup": 5, "window": 9, "sweep_every": 5},
        wait=5, river=river_rows,
    ),
    seqddcrp(
        "few tables",
        {"max_tables": 3, "warmup": 10, "window": 8, "decay": Exponential(2.0)},
        wait=8,
    ),
    seqddcrp("two columns", {"likelihood": WISHART, "window": 16}, river=river_rows),
    seqddcrp("own past", {"likelihood": OWN_PAST, "warmup": 10, "window": 10}, wait=8),
    seqddcrp(
        "other column",
        {"likelihood": ("regression", "1"), "warmup": 10, "window": 10},
        wait=8, forms=forms.of_arrays,
    ),
    seqddcrp("holes", {"warmup": 20}, wait=8, **HOLES),
    seqddcrp(
        "own past, holes", {"likelihood": ("autoregression", 3), "warmup": 20}, wait=8, **HOLES
    ),
    seqddcrp("mixed", {"warmup": 30}, wait=8, **(HOLES | {"stream": streams.mixed})),
    seqddcrp(
        "season", {"season": 9, "window": 10}, wait=8, stream=partial(streams.cycles, n=700),
        examples=5,
    ),
    seqddcrp(
        "season of the clock", {"window": 10}, wait=8, stream=streams.hours, flat=None, examples=5,
    ),
    seqddcrp(
        "season found", {"season": "auto", "warmup": 40, "window": 10}, wait=8,
        stream=streams.cycles, flat=None, examples=5,
    ),
    seqddcrp(  # saved and cut while its prior is chosen, which is spread over rows
        "many columns", {"warmup": 64, "window": 10}, wait=8,
        stream=partial(streams.levels, n=96, d=90), flat=None, examples=5,
    ),
    ddcrp("auto", {"warmup": 15}, river=river_rows),
    ddcrp("given", {"likelihood": GAUSSIAN, "n_particles": 3}, river=river_rows),
    ddcrp(
        "short",
        {"likelihood": GAUSSIAN, "decay": Exponential(3.0), "time_unit": 1.0},
        flat=TWICE, examples=10,
    ),
    ddcrp(
        "window decay",
        {"decay": ("window", 7), "warmup": 5, "n_particles": 4},
        flat=TWICE, river=river_rows,
    ),
    ddcrp("no decay", {"decay": "none", "warmup": 10, "n_particles": 1}),
    ddcrp("two columns", {"likelihood": WISHART}),
    ddcrp(
        "own past",
        {"likelihood": OWN_PAST, "warmup": 10, "decay": ("logistic", 5.0)},
        flat=TWICE,
    ),
    ddcrp("holes", {"warmup": 20}, **HOLES),
    *(graph(name, options, **more) for name, options, more in (
        ("auto", {"warmup": 15, "n_particles": 8}, {}),
        ("given", {"likelihood": GAUSSIAN, "n_particles": 5, "rejuvenate": 2, "window": 7},
         {"flat": Flat(LONG), "river": river_rows}),
        ("fixed alpha", FIXED_ALPHA, {"flat": Flat(LONG)}),
        ("discount", {"likelihood": GAUSSIAN, "n_particles": 5, "rejuvenate": 2, "window": 7,
         "alpha": 0.5, "discount": 0.3}, {"flat": Flat(LONG)}),
        ("two clusters", {"likelihood": GAUSSIAN, "n_particles": 5, "window": 20, "alpha": 0.5,
         "n_clusters": 2}, PARENTS),
        ("four clusters in all", {"likelihood": GAUSSIAN, "n_particles": 5, "rejuvenate": 2,
         "window": 7, "alpha": 0.5, "n_clusters": 4, "whole_graph": True}, {"flat": Flat(LONG)}),
        ("own past", {"likelihood": OWN_PAST, "warmup": 10, "n_particles": 4}, {}),
        ("parents", {"warmup": 15, "n_particles": 8, "window": 20}, PARENTS),
        ("parents, given", {"likelihood": GAUSSIAN, "n_particles": 5, "window": 20}, PARENTS),
        ("parents, fixed alpha", FIXED_ALPHA | {"window": 20}, PARENTS),
        ("parents, own past", {"likelihood": OWN_PAST, "warmup": 10, "n_particles": 4}, PARENTS),
    )),
    group_dp(
        "given",
        {"n_shared": 5, "likelihood": GAUSSIAN},
        flat=Flat(partial(streams.with_groups, 3, 20_000)), river=river_rows,
    ),
    group_dp("Markov chain", {"n_shared": 5, "likelihood": GAUSSIAN, "markov": True},
             stream=streams.levels, lacks=set(), river=river_rows),
    group_dp(
        "Markov chain, alpha learned",
        {"n_shared": 5, "likelihood": GAUSSIAN, "markov": True, "alpha": ("gamma", 1.0, 1.0)},
        stream=streams.levels, lacks=set(), river=river_rows,
    ),
    group_dp("auto", {"n_shared": 5, "warmup": 20}, river=river_rows),
    group_dp(
        "two layers, alpha learned",
        {"n_shared": (4, 3), "likelihood": GAUSSIAN, "alpha": ("gamma", 1.0, 1.0)},
        stream=streams.with_nodes, look=kinds.look_at_group,
    ),
    group_dp(
        "two layers",
        {"n_shared": (4, 3), "likelihood": GAUSSIAN},
        stream=streams.with_nodes, look=kinds.look_at_group,
    ),
    group_dp("two layers, auto", {"n_shared": (4, 3), "warmup": 20},
             stream=streams.with_nodes, look=kinds.look_at_group),
    group_dp("hierarchical", {"gamma": 1.5, "likelihood": GAUSSIAN}),
    group_dp("hierarchical, few",
             {"gamma": 1.5, "likelihood": GAUSSIAN, "alpha": ("gamma", 1.0, 1.0)} | FEW),
    group_dp("hierarchical Markov chain", {"gamma": 1.5, "likelihood": GAUSSIAN, "markov": True},
             stream=streams.levels, lacks=set()),
    group_dp("few", {"n_shared": 5, "likelihood": GAUSSIAN} | FEW),
    group_dp("two layers, few", {"n_shared": (4, 3), "likelihood": GAUSSIAN} | FEW,
             stream=streams.with_nodes, look=kinds.look_at_group),
    group_dp("Markov chain, few", {"n_shared": 5, "likelihood": GAUSSIAN, "markov": True} | FEW,
             stream=streams.levels, lacks=set()),
    ibp("all learned", {}, flat=Flat(streams.long_causes, growth=1.5), river=river_rows),
    ibp("holes", {"missing": True}, lacks=set(), **(HOLES | {"stream": streams.causes_with_holes})),
    ibp("given noise", {"sigma_x": 0.3, "sigma_y": 3.0}),
    kinds.embedding(
        "default", {}, river=river_rows,
        flat=Flat(partial(streams.directions, 3, 20_000), most=lambda _: 400_000.0),
    ),
    kinds.embedding("rho", {"rho": 0.3}),
    temporal("values", {"warmup": 15}, 16, river=river_rows),
    temporal("period", {"epoch": "2s", "warmup": 10, "lag": 1}, 22),
    temporal(
        "rows",
        {"epoch": ("rows", 12), "warmup": 20, "lag": 0, "window": 2},
        24, times="optional", ordered=False, river=river_rows, state=kinds.state_of_epochs,
    ),
    temporal("known", {"likelihood": KNOWN, "lag": 2, "decay": ("window", 3)}, 0),
    temporal("family", {"likelihood": "normal_wishart", "warmup": 15, "lag": 1}, 16,
             river=river_rows),
    temporal("decay", {"warmup": 15, "decay": Exponential(2.0)}, 16, examples=5),
    temporal("full", {"warmup": 15, "likelihood": "full_gaussian"}, 16, examples=5),
    temporal_texts("texts", {"epoch": "2s", "lag": 1}, stream=streams.epochs_of_texts),
    temporal_texts("rho", {"likelihood": TextDecay(rho=0.8)}, **FEW_TEXTS),
    temporal_texts("beta", {"likelihood": TextDecay(beta=0.1)}, **FEW_TEXTS),
    kinds.text_stream(
        "documents", {"lag": 30, "decay": 40.0}, river=river_counts, fails=kinds.ROOM
    ),
    kinds.text_stream(
        "time", {"lag": 20, "decay": ("time", 15.0), "stop_words": None}, times="needed",
        fails={"test_the_summary_has_a_row_per_table": "born_t and last_t come with the first row"},
    ),
    kinds.text_stream("learned", {"lag": 30, "decay": None}, fails=kinds.ROOM),
    kinds.text_stream(
        "short", {"lag": 2, "decay": 5.0, "alpha": 1.0, "stop_words": ("oil", "the")}
    ),
    kinds.text_stream(
        "without spaces", {"lag": 30, "decay": 40.0}, stream=streams.texts_without_spaces,
        fails=kinds.ROOM,
    ),
    *LANGUAGES,
    kinds.text_stream(
        "turnover", {"lag": 100, "decay": 100.0}, fails=kinds.ROOM,
        flat=Flat(streams.turnover, 40, 20, most=lambda _: math.inf, check=kinds.few_words),
    ),
    kinds.topics(
        "counts", stream=streams.counts, forms=forms.of_counts, refused=forms.BAD_COUNTS,
        flat=Flat(streams.many_counts, 10, 1, 1.3, most=lambda _: math.inf),
    ),
    kinds.topics(
        "texts", stream=streams.untimed_texts, forms=forms.of_texts, refused=forms.BAD_TEXTS
    ),
    kinds.components(
        "numbers", {}, stream=streams.points_of_tree, river=river_rows,
        flat=Flat(lambda: Stream(streams.points(4000)), 10, 5),
    ),
    kinds.components(
        "binary rows", {"likelihood": "bernoulli"}, stream=streams.binary_rows,
        river=forms.river_bits, examples=5, refused=(*forms.BAD_NUMBERS, *forms.BAD_BITS),
        odd=(*forms.ODD_NUMBERS, ({0: 1.0}, "must be there"), ({0: 1.0, 1: 0.5}, "0 or 1")),
        flat=Flat(lambda: streams.binary_rows(3, 2000), 10, 5),
    ),
    kinds.language(
        "numbers", stream=streams.tokens, odd=((9, "token 9"), (1.5, "float")),
        refused=(
            Refusal("unknown", forms.instead(np.array([0, 9]), 2), "row 1: token 9", 1),
            Refusal("words", forms.instead(["to", "be"], 2), "whole numbers", begun=True),
        ),
    ),
    kinds.language(
        "words", stream=streams.words, odd=((3, "whole numbers"),),
        refused=(
            Refusal("number", forms.instead(["w1", 3], 2), "3", 1),
            Refusal("too many", forms.instead(list("abcdefgh"), 8), "'[a-h]' is unknown", ...),
        ),
    ),
    kinds.keyed(
        "numbers",
        SeqDDCRP(likelihood=GAUSSIAN, window=4, sweep_every=2, max_tables=3),
        stream=streams.with_keys, refused=(forms.NO_KEY, forms.BAD_CELL),
    ),
    kinds.keyed("texts", TextStream(lag=10, stop_words=None), stream=streams.texts_with_keys),
    kinds.detector("default", RegimeAnomalyDetector, wait=8),
    kinds.detector(
        "reference",
        lambda: RegimeAnomalyDetector(
            SeqDDCRP(likelihood=GAUSSIAN, warmup=10, window=12), rate=0.05, reference_after=40
        ),
        wait=1, **kinds.WITH_REFERENCE,
    ),
    kinds.detector(
        "reference, averaged",
        lambda: RegimeAnomalyDetector(
            SeqDDCRP(likelihood=("autoregression", 2), warmup=15, window=10),
            rate=0.05, average=4, reference_after=33,
        ),
        wait=8, **kinds.WITH_REFERENCE,
    ),
    kinds.detector(
        "season",
        lambda: RegimeAnomalyDetector(
            SeqDDCRP(season=9, warmup=30, window=10), rate=0.05, average=2, reference_after=60
        ),
        wait=8, stream=streams.cycles, examples=5,
        **(kinds.WITH_REFERENCE | {"lacks": kinds.OF_DETECTOR}),
    ),
    kinds.detector(
        "averaged",
        lambda: RegimeAnomalyDetector(
            SeqDDCRP(likelihood=GAUSSIAN, window=8), rate=0.1, average=3
        ),
        wait=1, flat=Flat(LONG),
    ),
    Case(
        name="Alarm", make=partial(Alarm, 0.02, 4), stream=streams.surprises, times="none",
        step=kinds.judge, learn_one=lambda alarm, x, more: alarm.step_many([x]),
        look=kinds.look_at_threshold, wait=None, methods=("step_many",),
        flat=Flat(partial(streams.surprises, 3, 20_000)),
        refused=(Refusal("matrix", forms.instead([[1.0]]), "shape"),),
        lacks={"events", "summary", "river", "keyed", "gaps"},
    ),
    kinds.of_numbers(
        "Reference", partial(kinds.reference, GAUSSIAN), times="none", step=kinds.surprise,
        learn_one=lambda reference, x, more: reference.score_one(x),
        look=lambda reference, x, more: {"score": reference.score_one(x)},
        methods=("score_many",), flat=Flat(LONG), forms=forms.of_arrays,
        lacks={"events", "summary", "river", "keyed"},
    ),
    kinds.seasonal("found", {}, stream=streams.cycles, examples=8),
    kinds.seasonal("given", {"period": 9}, stream=streams.cycles, flat=Flat(
        lambda: Stream(streams.waves(20_000), np.arange(20_000.0)), 10, 2, 1.01,
        times=(True, False), most=lambda _: 20_000.0,
    )),
    kinds.seasonal("two", {"period": (6, 30.5)}, stream=streams.cycles, examples=8),
    kinds.seasonal("holes", {"period": 9}, **(
        kinds.BY_NAME | {"stream": streams.waves_with_holes, "times": "none"}
    )),
    kinds.windows("found", {"warmup": 64}),
    kinds.windows("given", {"period": 5}),
    kinds.windows("default", {}, river=None, flat=Flat(
        lambda: Stream(streams.waves(20_000)), 40, 3, 1.2,
        most=lambda model: 8 * 250 + 10_000 if model.window is None
        else 8 * (model.window + model.window // 4) + 4_000,
    )),
    kinds.windows(
        "holes", {"period": 9}, **(kinds.BY_NAME | {"stream": streams.waves_with_holes})
    ),
]  # fmt: skip
