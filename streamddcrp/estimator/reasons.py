"""Explain predictions: what each part of a row adds to its surprise."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa

from streamddcrp.arguments import checked
from streamddcrp.cards import table_card
from streamddcrp.compilation import entry_point
from streamddcrp.contract import Part, said
from streamddcrp.likelihoods import Likelihood
from streamddcrp.likelihoods.base import lacking
from streamddcrp.likelihoods.kernels.parts import most_apart
from streamddcrp.typing import FloatArray, IntArray

_FEW = 3  # parts in a sentence
LEAST = 1.0  # nats of a reason: a one standard deviation shift
_MOST = 5  # reasons of an event


@dataclass(slots=True, unsafe_hash=True)  # frozen, it would take twice as long to make
class Explanation:
    """What makes up a row's surprise.

    Attributes
    ----------
    parts : tuple of Part
        Columns, words or dimensions that have a value, largest excess first.
    score : float
        Surprise of the row in nats, as `score_one` gives it.
    excess : float
        The score minus its expectation under the present regime, without the prior's share; the sum
        of the surprises if a model gives no expectation.
    shared : float
        Share of the excess left without the best single part: 0 if one part explains everything,
        near 1 if many do together; 0 for an unsurprising row.
    regime : int or None
        The expected regime, the settled state before the row.

    Examples
    --------
    >>> from streamddcrp import SeqDDCRP
    >>> model = SeqDDCRP(likelihood=("normal_gamma", 0.0, 0.05, 1.5, 1.5))
    >>> model.learn_many([{"flow": i % 3, "level": i % 2} for i in range(60)])
    >>> why = model.explain_one({"flow": 1.0, "level": 9.0})
    >>> print(why.parts[0])
    level 9, expected 0.5 ± 0.5: 16 standard deviations high
    """

    parts: tuple[Part, ...]
    score: float
    excess: float
    shared: float
    regime: int | None = None

    def __str__(self) -> str:
        """Return one sentence for each part."""
        return said(self.parts[:_FEW])

    @property
    def why(self) -> str:
        """The largest part in words, and up to two more with at least a nat of excess."""
        return said(self._main)

    @property
    def _main(self) -> list[Part]:
        return [p for i, p in enumerate(self.parts[:_FEW]) if not i or p.excess >= LEAST]

    def _repr_html_(self) -> str:
        rows = [(part.name, part._words, part.excess) for part in self.parts]
        names = "part", "what", "excess, nats"
        return table_card(type(self).__name__, self._headline, names, rows)

    @property
    def _headline(self) -> str:
        left = f"; {self.shared:.0%} of the excess is in no single part"
        return f"surprise {self.score:.4g} nats{left if self.shared >= 0.005 else ''}"

    def plot(self) -> Any:
        """Draw the excess of each part, at most 20, with its words; return the figure."""
        from streamddcrp.plots.reasons import plot_parts  # noqa: PLC0415 -- only for pictures

        return plot_parts(self.parts, self._headline)


class Explanations(Sequence[Explanation]):
    """Explanations of a batch, one `Explanation` for each row.

    Parameters
    ----------
    rows : sequence of Explanation

    Attributes
    ----------
    names : list of str
        Parts of all rows, largest excess first.
    """

    @checked
    def __init__(self, rows: Sequence[Explanation]) -> None:
        self._rows = rows
        worst: dict[str, float] = {}
        for part in (part for row in rows for part in row.parts):
            worst[part.name] = max(worst.get(part.name, -math.inf), part.excess)
        self.names = sorted(worst, key=lambda name: -worst[name])

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, at: Any) -> Any:
        found = self._rows[at]
        return Explanations(found) if isinstance(at, slice) else found

    def table(self) -> pa.Table:
        """Return a row for each row: ``score``, ``excess``, ``shared``, ``regime``, and parts.

        Parts are columns ``excess_<part>`` in the order of `names`, null where a row lacks them.
        """
        columns: dict[str, Any] = {
            name: [getattr(row, name) for row in self]
            for name in ("score", "excess", "shared", "regime")
        }
        values = [{part.name: part.excess for part in row.parts} for row in self]
        columns |= {f"excess_{name}": [row.get(name) for row in values] for name in self.names}
        return pa.table(columns)

    def plot(self) -> Any:
        """Draw the excess of each part, row by row, for the 20 largest parts; return the figure."""
        from streamddcrp.plots.reasons import plot_rows  # noqa: PLC0415 -- only for pictures

        return plot_rows(self.names, [{p.name: p.excess for p in row.parts} for row in self])

    def _repr_html_(self) -> str:
        return max(self._rows, key=lambda row: row.excess)._repr_html_() if self._rows else ""


_by_excess = attrgetter("excess")


def explanation(
    parts: Sequence[Part], score: float, excess: float, regime: int | None = None
) -> Explanation:
    """Order parts; compute the share that no single one explains."""
    ordered, left = tuple(sorted(parts, key=_by_excess, reverse=True)), 0.0
    if ordered and excess > 0.0 and ordered[0].excess < excess:
        left = 1.0 - ordered[0].excess / excess if ordered[0].excess > 0.0 else 1.0
    return Explanation(ordered, score, excess, left, regime)


def asked(
    likelihood: Likelihood, x: FloatArray, past: FloatArray | None, n_tables: int
) -> tuple[IntArray, FloatArray, FloatArray, FloatArray]:
    """Return the columns of a row (D,) that are parts, and arrays for the kernel `explain`.

    These are the row with and without each part, and room for what is found and expected.
    """
    at = likelihood.explains(x)
    rows = likelihood.without(x, at, past)
    return at, rows, np.empty((2 + n_tables, len(rows))), np.empty((3, rows.shape[1]))


def explained(
    likelihood: Likelihood, x: FloatArray, at: IntArray, out: FloatArray, seen: FloatArray
) -> tuple[IntArray, tuple[float, float], FloatArray, FloatArray]:
    """Return what the kernel `explain` found of a row (D,), in the row's units.

    Returns the columns that are parts (n,); the row's surprise, and its excess over what is
    expected; each part's surprise (n,); and by column (3, D) the expected value, its standard
    deviation and the excess.
    """
    D = len(x)
    view, surprise, excess = likelihood.in_units(seen, D), out[0, 1:], out[1, 1:]
    if len(at) == D:
        np.subtract(excess, view[2], view[2])
    else:
        view[2, at] = excess - view[2, at]
    score = out.item(0, 0)
    slopes = likelihood.log_slopes(x[None])
    if slopes is not None:
        score -= slopes[0]
        surprise -= slopes[0] - likelihood.log_slopes(lacking(x, at)[1:])
    return at, (score, out.item(1, 0)), surprise, view


def differences(
    likelihood: Likelihood, views: Sequence[FloatArray], names: Sequence[str]
) -> list[tuple[Part, ...]]:
    """Describe how the first table differs from each of the others: see `parts_apart`.

    ``views`` (3, C) each are the `outlook` of the tables.
    """
    one, *others = (likelihood.in_units(view.copy(), len(names)) for view in views)
    return [parts_apart(names, one[0], one[1], other[0], other[1]) for other in others]


def parts_apart(
    names: Sequence[str], mean: FloatArray, sd: FloatArray, before: FloatArray, spread: FloatArray
) -> tuple[Part, ...]:
    """Describe by columns (D,) how ``mean`` and ``sd`` differ from earlier values.

    Returns at most five parts of at least one nat, the largest first. Surprise and excess of a part
    are the column's share of the symmetric Kullback-Leibler divergence: see `most_apart`.
    """
    at, apart = np.empty(_MOST, np.int64), np.empty(_MOST)
    n = entry_point(most_apart)(mean, sd, before, spread, LEAST, at, apart)
    return tuple([
        Part(names[d], mean.item(d), before.item(d), spread.item(d), nats, nats, sd.item(d))
        for d, nats in zip(at[:n].tolist(), apart[:n].tolist(), strict=True)
    ])  # fmt: skip


def parts_of(
    names: Sequence[str], x: FloatArray, at: IntArray, surprise: FloatArray, view: FloatArray
) -> list[Part]:
    """Return the parts of a row as `explained` describes them."""
    values = x
    if len(at) < len(x):
        names, values, view = [names[d] for d in at.tolist()], x[at], view[:, at]
    expected, sd, excess = view.tolist()
    return list(map(Part, names, values.tolist(), expected, sd, surprise.tolist(), excess))
