"""Named settings: what a stream is like before any row has been seen."""

from typing import Any, NamedTuple

from streamddcrp.errors import ConfigError
from streamddcrp.models.seqddcrp.founding import Candidate


class Preset(NamedTuple):
    """Settings that go together.

    Attributes
    ----------
    likelihood : str or tuple
        For ``likelihood="auto"``; "auto" here looks at the first rows.
    gamma : float
        Concentration of the atoms.
    candidates : tuple of Candidate
        Priors that compete on the first rows.
    """

    likelihood: Any
    gamma: float
    candidates: tuple[Candidate, ...]


PRESETS = {
    "process": Preset(
        "auto",
        3.0,
        tuple(
            Candidate(opening, spread)
            for opening, spread in (
                (0.0133, 0.05), (0.0133, 0.2), (0.0133, 1.0), (0.1, 0.05), (0.1, 0.01), (0.1, 0.2),
                (0.5, 0.05), (0.5, 0.01), (0.5, 0.003),
            )
        ),
    ),
    "short-series": Preset(
        ("autoregression", 1), 1.0, tuple(Candidate(0.005, spread) for spread in (0.05, 0.2, 1.0))
    ),
}  # fmt: skip


def find_preset(name: str) -> Preset:
    """Return a preset by name.

    Raises
    ------
    ConfigError
        If there is none of that name.
    """
    if name not in PRESETS:
        message = f"preset must be one of {sorted(PRESETS)}, got {name!r}"
        raise ConfigError(message)
    return PRESETS[name]
