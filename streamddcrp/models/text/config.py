"""Settings of the engines over texts and over vectors, and what users' options mean in them."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamddcrp.arguments import as_list
from streamddcrp.data.epochs import make_cut
from streamddcrp.data.languages import stop_words_of
from streamddcrp.errors import ConfigError
from streamddcrp.typing import FloatArray, IntArray
from streamddcrp.validation import choice, positive, whole

# Of a new table in the weight of all, after a while that of `decay` documents; the least b of the
# base measure, by B; and from how many words a text on tables are compared as topics. A long text
# of a broad topic always shares some rare words with some few others, of a thread or a byline: with
# b they say less. B is large where texts are long.
SCALES = {
    "auto": (0.06, 0.0, math.inf),
    "template": (0.06, 0.0, math.inf),
    "event": (0.15, 0.0, math.inf),
    "story": (0.06, 0.0, math.inf),
    "topic": (0.01, 0.01, 40),
}
OCTAVES = np.arange(-4.0, 4.0)  # about `decay`, of the scales of one that is learned
DISCOUNT, SMOOTHING = 0.6, 0.25  # d of the urns, and b of the base measure
VISITS = 3  # after its arrival a document is visited again so often, the last time at the lag
DISSOLVE = 3.0  # nats by which a table of at most two documents must be better at the last visit
RETIRE = 1e-3  # weight below which a table is retired
# Values to choose from: of rho, and the parts of the temper of independent dimensions.
RHOS = {"event": (0.7, 0.5, 0.4), "story": (0.3, 0.2, 0.1, 0.05), "topic": (0.05, 0.025)}
PARTS = (1.0, 0.5)


class Config(NamedTuple):
    """Settings in the kernels' terms; made and checked by `make_config`."""

    alpha: float  # weight of a new table at the start, in documents that arrive now
    # If positive, that weight as a part of the documents that come in the time `decay`, at the rate
    # of the last documents, which it then follows.
    share: float
    decay: float  # documents, or units of time, in which the weight of a document falls to 1/e
    clocked: bool  # whether `decay` is measured in time
    discount: float  # d of the Pitman-Yor tables
    smoothing: float  # b of their base measure at least,
    breadth: float  # and by B
    long: float  # words a text from which `kernels.topics` merges and splits, in the mean
    dissolve: float  # nats in favour of leaving a table of at most two documents at the last visit
    retire: float  # weight below which a table is retired
    ages: IntArray  # (R,): after how many documents one is visited again; the last is the lag
    births: int  # documents from which the birth of a table is reported
    clocks: int  # a learned decay is one of documents, 1, and of time, 2; 0: it is given
    copies: bool  # whether copies are told from other documents


class VectorConfig(NamedTuple):
    """Settings of the engine over vectors; those shared with texts mean the same."""

    alpha: float
    share: float
    decay: float
    clocked: bool
    clocks: int
    retire: float
    rho: FloatArray  # (G,): the values to choose from
    parts: FloatArray  # (P,): the same of the part of the temper
    joined: bool  # whether sets without a gap are one
    temper: float  # 0: learned
    learned: bool  # whether alpha follows the vectors
    ages: IntArray
    births: int


def make_config(
    *,
    alpha: float | None = None,
    decay: float = 500.0,
    clocked: bool = False,
    lag: int = 500,
    learned: bool = False,
    scale: str = "story",
    births: int = 3,
) -> Config:
    """Check the settings and put them into the kernels' order.

    ``alpha``, if None, is the part of the documents that come in the time `decay` that ``scale``, a
    name of `SCALES`, says. ``learned``: the decay is learned, see `kernels.clock`; then `decay` is
    about what it is expected to be, in documents. ``clocked``: `decay` is a time, or where it is
    learned, documents have times. ``births``: documents from which a birth is reported. Raises
    ConfigError if a setting is out of its range.
    """
    share, breadth, long = SCALES[choice("scale", scale, [*SCALES])]
    decay = positive("decay", decay)
    if alpha is not None:
        alpha, share = positive("alpha", alpha), 0.0
    else:
        alpha, share = (500.0 * share, share) if clocked or learned else (share * decay, 0.0)
    lag = whole("lag", lag, 1, 1 << 20)
    ages = sorted({max(1, round(lag * (r / VISITS) ** 2)) for r in range(1, VISITS + 1)})
    return Config(
        alpha, share, decay, bool(clocked), DISCOUNT, SMOOTHING, breadth, float(long), DISSOLVE,
        RETIRE, np.array(ages, np.int64), whole("births", births, 1),
        (1 + clocked) if learned else 0, scale != "template",
    )  # fmt: skip


def make_vector_config(
    *, alpha: float | None, decay: Any, lag: int, rho: float | None, temper: float | None,
    scale: str = "story", births: int = 3, clocked: bool = False,
) -> VectorConfig:  # fmt: skip
    """Check the settings of the engine over vectors; raises ConfigError."""
    base = engine_config(alpha, decay, lag, clocked=clocked, births=births)
    values = RHOS[choice("scale", scale, [*RHOS])]
    if rho is not None and not 0.0 < rho < 1.0:
        raise ConfigError(f"rho must lie between 0 and 1 or be None, got {rho!r}")
    if temper is not None and not 0.0 < temper <= 1.0:
        raise ConfigError(f"temper must be above 0 and at most 1, or None, got {temper!r}")
    return VectorConfig(
        base.alpha, base.share, base.decay, base.clocked, base.clocks, base.retire,
        np.array(values if rho is None else (rho,)), np.array(PARTS if temper is None else (1.0,)),
        scale == "story" and rho is None,
        float(temper or 0.0), alpha is None, base.ages, base.births,
    )  # fmt: skip


def scales_of(config: Config | VectorConfig) -> tuple[FloatArray, NDArray[np.bool_], FloatArray]:
    """Return what a decay that is learned is made of, shape (G,) each.

    Scales of the exponentials, in documents; whether they are of time, that in which so many
    documents came at first; and what part of the documents follows one at each scale, a priori.
    """
    clocks = config.clocks
    prior = np.tile(np.exp(-0.5 * OCTAVES**2), clocks)
    timed = np.repeat(np.arange(clocks) > 0, len(OCTAVES))
    return np.tile(config.decay * 2.0**OCTAVES, clocks), timed, prior / max(prior.sum(), 1.0)


def engine_config(
    alpha: float | None, decay: Any, lag: int, *, clocked: bool = False, **more: Any
) -> Config:
    """Return settings for options (text or pair: a decay in time); ``more``: for `make_config`."""
    if decay is None:
        return make_config(alpha=alpha, learned=True, clocked=clocked, lag=lag, **more)
    if not isinstance(decay, str | tuple | list):
        return make_config(alpha=alpha, decay=decay, lag=lag, **more)
    pair = not isinstance(decay, str) and len(decay) == 2 and str(decay[0]) == "time"
    try:
        cut = make_cut(decay[1] if pair else decay)
        if (pair or isinstance(decay, str)) and cut.kind == "period":
            return make_config(alpha=alpha, decay=cut.size, clocked=True, lag=lag, **more)
    except ConfigError as error:
        if not str(error).startswith("epoch"):
            raise
    raise ConfigError(
        "decay must be a number of documents, a time such as '1d', or a pair such as "
        f"('time', 3600.0), got {decay!r}"
    )


def words_left_out(given: Any) -> tuple[str, ...] | None:
    """Return the words to leave out at first; None for the short list of English ones."""
    if given is None:
        return ()
    if isinstance(given, str):
        return None if given in ("english", "auto") else stop_words_of(given)
    return tuple(as_list("stop_words", given))
