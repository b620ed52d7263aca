"""Options of a stream of texts, as users give them, in the engine's terms."""

from typing import Any

from streamddcrp.data.epochs import make_cut
from streamddcrp.errors import ConfigError
from streamddcrp.models.text.config import Config, make_config


def engine_config(alpha: float | None, decay: Any, lag: int, *, clocked: bool = False) -> Config:
    """Return the engine's settings; a text or a pair is a decay in time.

    ``clocked`` tells whether a decay that is learned is one in time.
    """
    if isinstance(decay, str) and decay == "auto":
        return make_config(alpha=alpha, learned=True, clocked=clocked, lag=lag)
    if not isinstance(decay, str | tuple | list):
        return make_config(alpha=alpha, decay=decay, lag=lag)
    pair = not isinstance(decay, str) and len(decay) == 2 and decay[0] == "time"
    try:
        cut = make_cut(decay[1] if pair else decay)
        if (pair or isinstance(decay, str)) and cut.kind == "period":
            return make_config(alpha=alpha, decay=cut.size, clocked=True, lag=lag)
    except ConfigError as error:
        if not str(error).startswith("epoch"):
            raise
    message = (
        "decay must be a number of documents, a time such as '1d', or a pair such as "
        f"('time', 3600.0), got {decay!r}"
    )
    raise ConfigError(message)


def words_left_out(given: Any) -> tuple[str, ...] | None:
    """Return the words to leave out; None for the English ones."""
    if given is None:
        return ()
    if isinstance(given, str):
        if given == "english":
            return None
        message = f"stop_words must be 'english', None or a list of words, got {given!r}"
        raise ConfigError(message)
    return tuple(given)
