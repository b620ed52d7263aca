"""Findings in plain sentences."""

import math
from typing import Any

import numpy as np

from streamddcrp.plots.findings import Findings, Regime, odd_features, telling_features
from streamddcrp.plots.lanes import lanes_of_causes
from streamddcrp.plots.segments import HOLD, Visit
from streamddcrp.plots.series import Cause

N_REGIMES = 12  # described individually
N_FEATURES = 6  # described for each regime
N_STAYS = 3
N_RETURNS = 5  # dates of returns written out
ALIGNED = 30  # longest names for which values are aligned


def in_words(findings: Findings) -> str:
    """Describe the findings in lines of text."""
    parts = [
        beginning(findings),
        _causes(findings.series.causes, findings.series.clock.at),
        _regimes(findings),
        _stays(findings),
        _returns(findings),
        _moments(findings),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def _causes(causes: tuple[Cause, ...], at: Any) -> list[str]:
    """Say when each feature was on; ``at`` writes the time of a row."""
    if not causes:
        return []
    shown = lanes_of_causes(causes)
    lines = ["Features that were on (a regime is a combination of them):"]
    for cause in shown:
        rows = np.flatnonzero(cause.on)
        n = len(rows)
        lines.append(
            f"  feature {cause.id}, {n:,} row{'' if n == 1 else 's'} "
            f"from {at(int(rows[0]))} to {at(int(rows[-1]))}"
        )
    if len(causes) > len(shown):
        lines.append(f"  {len(causes) - len(shown)} others, rarely on or on for good")
    return lines


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
    lines = [f"{series.name}: {_count(len(series), 'row')}{period}."]
    if findings.early == len(series):
        lines.append(
            "All of them are the model's warm-up: nothing was fitted yet, so there is nothing to "
            "report. Give it more rows, or a shorter `warmup`."
        )
    elif findings.early:
        were = "row is" if findings.early == 1 else "rows are"
        lines.append(
            f"{_count(findings.early, were)} the model's warm-up, before its first prediction, "
            "and left out below."
        )
    if series.measured is not None:
        lines.append("Values are shown with their seasons subtracted, as the model used them.")
    return lines


def _regimes(findings: Findings) -> list[str]:
    if findings.early == len(findings.series):
        return []
    lines = [
        f"{_count(len(findings.regimes), 'regime')}: states that lasted for at least {HOLD} "
        "consecutive rows; one that comes back keeps its number."
    ]
    if findings.passing:
        n_rows = sum(findings.passing.values())
        lines.append(
            f"{_count(len(findings.passing), 'other label')} never lasted so long "
            f"({_count(n_rows, 'row')} in all)."
        )
    features = telling_features(findings, N_FEATURES)
    for regime in findings.largest(N_REGIMES):
        lines += ["", *_regime(findings, regime, features)]
    if len(features) < len(findings.series.features):
        names = findings.series.features
        left_out = [name for d, name in enumerate(names) if d not in features]
        lines += [
            "",
            f"These are {len(features)} of {len(names)} columns, those that changed most, and then "
            "those that were odd at surprising moments. Left out above (choose with "
            f"--features): {', '.join(left_out)}.",
        ]
    rest = len(findings.regimes) - N_REGIMES
    if rest > 0:
        shown = {regime.label for regime in findings.largest(N_REGIMES)}
        share = sum(regime.share for regime in findings.regimes if regime.label not in shown)
        lines += ["", f"{_count(rest, 'smaller regime')} with {percent(share)} of the rows."]
    return lines


def _regime(findings: Findings, regime: Regime, features: list[int]) -> list[str]:
    clock = findings.series.clock
    seen = f"first seen {clock.at(regime.first)}, "
    seen += "there at the end" if findings.lasts(regime) else f"last seen {clock.at(regime.last)}"
    name = findings.series.name_of(regime.label)
    rows = f"{percent(regime.share)} of rows ({regime.n_rows:,})"
    lines = [f"R{name[1:]}: {rows}, {seen} (id {regime.label})."]
    names = [findings.series.features[d] for d in features]
    width = min(max(map(len, names), default=0), ALIGNED)
    for d, name in zip(features, names, strict=True):
        lines.append(f"  {name:<{width}}  {_values(regime, d)}")
    return lines


def _values(regime: Regime, d: int) -> str:
    if np.isnan(regime.mean[d]):
        return "always missing"
    if regime.least[d] == regime.most[d]:
        return f"always {number(regime.mean[d])}"
    mean, low, high = number(regime.mean[d]), number(regime.low[d]), number(regime.high[d])
    least, most = number(regime.least[d]), number(regime.most[d])
    return f"mean {mean}, mostly {low} to {high} (lowest {least}, highest {most})"


def _stays(findings: Findings) -> list[str]:
    if len(findings.visits) < 2:
        return []
    longest = sorted(findings.visits, key=lambda stay: (stay.first - stay.last, stay.first))
    lines = ["Longest stays:"]
    lines += [
        f"  {findings.series.name_of(stay.label)}, {_stay(findings, stay)}"
        for stay in longest[:N_STAYS]
    ]
    return lines


def _stay(findings: Findings, stay: Visit) -> str:
    clock = findings.series.clock
    n_rows = _count(stay.last - stay.first + 1, "row")
    span = clock.span(stay.first, stay.last)
    return (
        f"{clock.at(stay.first)} to {clock.at(stay.last)} ({span + ', ' if span else ''}{n_rows})"
    )


def _returns(findings: Findings) -> list[str]:
    back = [regime for regime in findings.regimes if regime.n_returns]
    if len(findings.regimes) < 2:
        return []
    if not back:
        return ["No regime came back after another had taken over."]
    clock = findings.series.clock
    lines = ["Came back after another regime had taken over:"]
    back.sort(key=lambda regime: (-regime.n_returns, regime.first))
    for regime in back[:N_REGIMES]:
        dates = [clock.at(stay.first) for stay in regime.visits[1:]]
        shown = ", ".join(dates[:N_RETURNS]) + (", ..." if len(dates) > N_RETURNS else "")
        times = {1: "once", 2: "twice"}.get(len(dates), f"{len(dates):,} times")
        lines.append(f"  {findings.series.name_of(regime.label)}, {times}: {shown}")
    if len(back) > N_REGIMES:
        lines.append(f"  and {_count(len(back) - N_REGIMES, 'other regime')}")
    return lines


def _moments(findings: Findings) -> list[str]:
    if not findings.moments:
        return []
    series = findings.series
    lines = [
        "Most surprising moments (nats), farthest above the rows around first, numbered as in the "
        "picture:"
    ]
    for rank, place in enumerate(findings.moments, start=1):
        score = f"surprise {number(series.scores[place])}"
        values = ", ".join(
            f"{series.features[d]} {number(series.values[place, d])}"
            for d in odd_features(series, place)
        )
        what = [values or "no values", began(findings, place)]
        lines.append(
            f"  {rank}. {series.clock.at(place)}: {score}; {'; '.join(filter(None, what))}"
        )
    return lines


def began(findings: Findings, place: int) -> str:
    """Name the regime that arrived with a row, or up to `segments.HOLD` rows later."""
    for stay in findings.visits[1:]:
        if place <= stay.first <= place + HOLD:
            regime = next(one for one in findings.regimes if one.label == stay.label)
            new = stay.first == regime.first
            name = findings.series.name_of(stay.label)
            return f"{'' if new else 'back to '}{name}{' begins' if new else ''}"
    return ""


def _count(n: int, what: str) -> str:
    plural = "" if n == 1 or what.endswith(("is", "are")) else "s"
    return f"{n:,} {what}{plural}"


def percent(share: float) -> str:
    """Write a share so that rounding never claims none or all wrongly."""
    if share >= 0.9995:
        return "100 %" if share == 1 else "99.9 %"
    return f"{100 * share:.1f} %" if share >= 0.001 else "under 0.1 %"
