"""Options of a tree of topics, and what happens to the nodes of a tree."""

from typing import NamedTuple

from streamddcrp.typing import FloatArray


class Settings(NamedTuple):
    """Options of a tree of topics.

    Attributes
    ----------
    gamma : float
        Concentration of the sticks.
    eta : ndarray, shape (L,)
        Dirichlet prior of a word in a topic, by level.
    alpha : ndarray, shape (L,)
        Dirichlet prior of a document's proportions of levels.
    kappa : float
        Forgetting: the n-th document counts n^(1 - kappa), all together n. 1: none.
    window, revisits : int
        After each document, so many of the last ``window`` ones are placed again.
    max_nodes : int
    beam : int
        Leaves that are looked at closely.
    rounds, tol
        Of the words' levels within a document.
    """

    gamma: float
    eta: FloatArray
    alpha: FloatArray
    kappa: float = 1.0
    window: int = 512
    revisits: int = 2
    max_nodes: int = 512
    beam: int = 3
    rounds: int = 30
    tol: float = 1e-3


class Change(NamedTuple):
    """A topic is born, dies, or goes into another."""

    kind: str
    id: int
    n_seen: int
    other: int | None = None
