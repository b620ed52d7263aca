"""What happened to tables, as users are told."""

from dataclasses import dataclass

__all__ = ["KINDS", "Event"]

KINDS = ("birth", "return", "death", "merge", "split")  # in the order of the kernels' codes


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a table.

    Attributes
    ----------
    kind : {"birth", "return", "death", "merge", "split"}
        "birth": an arrival was seated there for the first time. "return": again, after more
        arrivals than the window holds. "death": the table left memory; its id will not come again.
        "merge": it is one with another table from now on. "split": it was part of another one.
    label : int
        Id of the table.
    index : int
        Arrival index, from 0.
    t : float
        Time of that arrival.
    into : int, optional
        For "merge", the id of the table it joined; for "split", of the one it came from.
    key : str or int, optional
        Which stream it is of, in a model that keeps many (`Keyed`).

    Examples
    --------
    >>> Event("birth", 3, 120, 120.0).kind
    'birth'
    """

    kind: str
    label: int
    index: int
    t: float
    into: int | None = None
    key: str | int | None = None
