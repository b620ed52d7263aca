"""How a law is tried on the cases that it is for."""

import pyarrow as pa
import pytest

from tests.conformance.cases import CASES


def law(*abilities, where=lambda case: True):
    """Try a test on every case that has the abilities; one that fails it must be known to."""

    def parametrised(test):
        params = []
        for case in CASES:
            if case.can(*abilities) and where(case):
                reason = case.fails.get(test.__name__)
                marks = pytest.mark.xfail(strict=True, reason=reason) if reason else ()
                params.append(pytest.param(case, id=case.name, marks=marks))
        return pytest.mark.parametrize("case", params)(test)

    return parametrised


def joined(parts):
    """Return the rows of record batches as one table; those without rows say nothing."""
    some = [part for part in parts if part.num_rows]
    return pa.Table.from_batches(some).combine_chunks() if some else None


def equal_outputs(case, parts, expected):
    one, other = joined(parts), joined([expected])
    if one is None or other is None:
        return one is other
    return one.drop_columns(_of(one, case)).equals(other.drop_columns(_of(other, case)))


def _of(table, case):
    return [name for name in case.dropped if name in table.column_names]


def events_of(case, model):
    """Return the events since the last call."""
    return model.events() if case.can("events") else []


def same(one, other):
    """Tell whether two models are in the same state, to the last bit."""
    return one.to_bytes() == other.to_bytes()


def restored(model):
    return type(model).from_bytes(model.to_bytes())


def unscored(found):
    """Tell whether predicting has given no score."""
    return found.get("score") == 0.0
