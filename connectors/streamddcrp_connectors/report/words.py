"""Findings in plain sentences."""

import math
from functools import cache
from typing import Any

import numpy as np

from streamddcrp.errors import import_extra
from streamddcrp.plots.figures import printable
from streamddcrp.plots.findings import Findings, Regime, odd_features, telling_features
from streamddcrp.plots.lanes import lanes_of_causes
from streamddcrp.plots.segments import HOLD

N_REGIMES = 12  # described individually
N_FEATURES = 6  # described for each regime
N_STAYS = 3
N_RETURNS = 5  # dates of returns written out
ALIGNED = 30  # longest names for which values are aligned


def jinja() -> Any:
    """Import Jinja, or say how to install it."""
    return import_extra("jinja2", "pages need Jinja", "plot")


@cache
def templates() -> Any:
    """Return the templates of this package; in pages every value is escaped."""
    jinja2 = jinja()
    return jinja2.Environment(
        loader=jinja2.PackageLoader(__package__),
        autoescape=jinja2.select_autoescape(),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def filled(template: str, **values: Any) -> str:
    """Fill a template of this package."""
    text: str = templates().get_template(template).render(values)
    return text


def described(findings: Findings, n_regimes: int, n_stays: int) -> dict[str, Any]:
    """Return what both the words and the page say, and the functions that write it."""
    series, clock = findings.series, findings.series.clock
    longest = sorted(findings.visits, key=lambda stay: (stay.first - stay.last, stay.first))
    return {
        "findings": findings, "series": series, "at": clock.at, "span": clock.span,
        "name_of": series.name_of, "percent": percent, "facts": beginning(findings),
        "largest": findings.largest(n_regimes), "stays": longest[:n_stays],
        "moments": [_moment(findings, k, p) for k, p in enumerate(findings.moments, start=1)],
    }  # fmt: skip


def in_words(findings: Findings) -> str:
    """Describe the findings in lines of text."""
    series, shared = findings.series, described(findings, N_REGIMES, N_STAYS)
    columns = telling_features(findings, N_FEATURES)
    back = [regime for regime in findings.regimes if regime.n_returns]
    return filled(
        "regimes.txt", **shared,
        many=many, values=_values, hold=HOLD, n_regimes=N_REGIMES, n_returns=N_RETURNS,
        columns=columns,
        width=min(max((len(series.features[d]) for d in columns), default=0), ALIGNED),
        left_out=[name for d, name in enumerate(series.features) if d not in columns],
        smaller=[regime for regime in findings.regimes if regime not in shared["largest"]],
        causes=[(cause, np.flatnonzero(cause.on).tolist()) for cause in
                (lanes_of_causes(series.causes) if series.causes else ())],
        back=sorted(back, key=lambda regime: (-regime.n_returns, regime.first)),
    )  # fmt: skip


def number(value: float) -> str:
    """Write a number with about four digits.

    Examples
    --------
    >>> number(101.2345), number(0.0012345), number(1234567.0), number(3.0)
    ('101.2', '0.001234', '1,234,567', '3')
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:.0f}"
    digits = 3 - math.floor(math.log10(abs(value)))
    if digits > 8 or digits < -8:
        return f"{value:.3e}"
    text = f"{value:,.{max(digits, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def beginning(findings: Findings) -> list[str]:
    """Describe the series in lines."""
    series, clock = findings.series, findings.series.clock
    last = len(series) - 1
    if clock.counts_rows:
        period = f" ({clock.at(0)} to {clock.at(last)})"
    else:
        zone = ", in UTC" if clock.utc else ""
        period = f" from {clock.at(0)} to {clock.at(last)}{zone} ({clock.span(0, last)})"
    lines = [f"{series.name}: {many(len(series), 'row')}{period}."]
    if findings.early == len(series):
        lines.append(
            "All of them are the model's warm-up: nothing was fitted yet, so there is nothing to "
            "report. Give it more rows, or a shorter `warmup`."
        )
    elif findings.early:
        were = "row is" if findings.early == 1 else "rows are"
        lines.append(
            f"{many(findings.early, were)} the model's warm-up, before its first prediction, "
            "and left out below."
        )
    if series.measured is not None:
        lines.append("Values are shown with their seasons subtracted, as the model used them.")
    return lines


def _values(regime: Regime, d: int) -> str:
    if np.isnan(regime.mean[d]):
        return "always missing"
    if regime.least[d] == regime.most[d]:
        return f"always {number(regime.mean[d])}"
    mean, low, high = number(regime.mean[d]), number(regime.low[d]), number(regime.high[d])
    least, most = number(regime.least[d]), number(regime.most[d])
    return f"mean {mean}, mostly {low} to {high} (lowest {least}, highest {most})"


def _moment(findings: Findings, rank: int, place: int) -> dict[str, Any]:
    series = findings.series
    odd = [
        f"{printable(series.features[d])} {number(series.values[place, d])}"
        for d in odd_features(series, place)
    ]
    return {
        "rank": rank, "at": series.clock.at(place), "score": number(series.scores[place]),
        "odd": ", ".join(odd) or "no values", "began": began(findings, place),
    }  # fmt: skip


def began(findings: Findings, place: int) -> str:
    """Name the regime that arrived with a row, or up to `segments.HOLD` rows later."""
    for stay in findings.visits[1:]:
        if place <= stay.first <= place + HOLD:
            regime = next(one for one in findings.regimes if one.label == stay.label)
            new = stay.first == regime.first
            name = findings.series.name_of(stay.label)
            return f"{'' if new else 'back to '}{name}{' begins' if new else ''}"
    return ""


def many(n: int, what: str) -> str:
    """Write a number of things.

    >>> many(1, "row"), many(2345, "row")
    ('1 row', '2,345 rows')
    """
    plural = "" if n == 1 or what.endswith(("is", "are")) else "s"
    return f"{n:,} {what}{plural}"


def percent(share: float) -> str:
    """Write a share so that rounding never claims none or all wrongly."""
    if share >= 0.9995:
        return "100 %" if share == 1 else "99.9 %"
    return f"{100 * share:.1f} %" if share >= 0.001 else "under 0.1 %"
