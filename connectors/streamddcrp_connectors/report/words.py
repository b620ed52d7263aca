"""Findings in plain sentences."""

import math

import numpy as np

from streamddcrp_connectors.report.causes import words_of_causes
from streamddcrp_connectors.report.findings import Findings, Regime, most_distinct
from streamddcrp_connectors.report.segments import HOLD, Visit

__all__ = ["in_words", "number"]

N_REGIMES = 12  # described one by one
N_FEATURES = 4  # described for each regime: those drawn
N_STAYS = 3
N_RETURNS = 5  # dates of returns that are written out
INLINE = 2  # features of a moment named without choosing
ALIGNED = 30  # letters of a name up to which values stand below each other


def in_words(findings: Findings) -> str:
    """Say what was found, in lines of text."""
    parts = [
        _beginning(findings),
        words_of_causes(findings.series.causes, findings.series.clock.at),
        _regimes(findings),
        _stays(findings),
        _returns(findings),
        _moments(findings),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


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


def _beginning(findings: Findings) -> list[str]:
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
            f"{_count(findings.early, were)} warm-up, before the model had fitted anything, and "
            "left out below."
        )
    if series.measured is not None:
        lines.append("Values are less their seasons, as the model took them.")
    return lines


def _regimes(findings: Findings) -> list[str]:
    if findings.early == len(findings.series):
        return []
    lines = [
        f"{_count(len(findings.regimes), 'regime')}, a regime being a label that held for {HOLD} "
        "rows in a row at least once."
    ]
    if findings.passing:
        n_rows = sum(findings.passing.values())
        lines.append(
            f"{_count(len(findings.passing), 'other label')} never held "
            f"({_count(n_rows, 'row')} in all)."
        )
    features = most_distinct(findings, N_FEATURES)
    for regime in findings.largest(N_REGIMES):
        lines += ["", *_regime(findings, regime, features)]
    if len(features) < len(findings.series.features):
        n_left = len(findings.series.features) - len(features)
        lines += [
            "",
            f"Shown are the {len(features)} features that tell the regimes apart best; for the "
            f"{_count(n_left, 'other')} use --features.",
        ]
    rest = len(findings.regimes) - N_REGIMES
    if rest > 0:
        shown = {regime.label for regime in findings.largest(N_REGIMES)}
        share = sum(regime.share for regime in findings.regimes if regime.label not in shown)
        lines += ["", f"{_count(rest, 'smaller regime')} with {_percent(share)} of the rows."]
    return lines


def _regime(findings: Findings, regime: Regime, features: list[int]) -> list[str]:
    clock = findings.series.clock
    seen = f"first seen {clock.at(regime.first)}, "
    seen += "there at the end" if findings.lasts(regime) else f"last seen {clock.at(regime.last)}"
    lines = [
        f"Regime {regime.label}: {_percent(regime.share)} of rows ({regime.n_rows:,}), {seen}."
    ]
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
    lines += [f"  regime {stay.label}, {_stay(findings, stay)}" for stay in longest[:N_STAYS]]
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
    if not findings.regimes:
        return []
    if not back:
        return ["No regime came back after another had taken over." * (len(findings.regimes) > 1)]
    clock = findings.series.clock
    lines = ["Came back after another regime had taken over:"]
    back.sort(key=lambda regime: (-regime.n_returns, regime.first))
    for regime in back[:N_REGIMES]:
        dates = [clock.at(stay.first) for stay in regime.visits[1:]]
        shown = ", ".join(dates[:N_RETURNS]) + (", ..." if len(dates) > N_RETURNS else "")
        times = {1: "once", 2: "twice"}.get(len(dates), f"{len(dates):,} times")
        lines.append(f"  regime {regime.label}, {times}: {shown}")
    if len(back) > N_REGIMES:
        lines.append(f"  and {_count(len(back) - N_REGIMES, 'other regime')}")
    return lines


def _moments(findings: Findings) -> list[str]:
    if not findings.moments:
        return []
    series = findings.series
    lines = ["Most surprising moments, numbered as in the picture:"]
    for rank, place in enumerate(findings.moments, start=1):
        score = f"surprise {number(series.scores[place])}"
        values = ", ".join(
            f"{series.features[d]} {number(series.values[place, d])}" for d in _odd(findings, place)
        )
        what = _began(findings, place)
        lines.append(f"  {rank}. {series.clock.at(place)}: {score}; {values or 'no values'}{what}")
    return lines


def _odd(findings: Findings, place: int) -> list[int]:
    """Features of a row to name: the two farthest from their mean, in standard deviations."""
    row = findings.series.values[place]
    known = np.flatnonzero(~np.isnan(row))
    if len(known) <= INLINE:
        return [int(d) for d in known]
    values = findings.series.values[:, known]
    spread = np.nanstd(values, axis=0)
    far = np.abs(row[known] - np.nanmean(values, axis=0)) / np.where(spread > 0, spread, 1.0)
    return sorted(int(d) for d in known[np.argsort(-far, kind="stable")[:INLINE]])


def _began(findings: Findings, place: int) -> str:
    """Say which regime arrived with, or up to `segments.HOLD` rows after, a row."""
    for stay in findings.visits[1:]:
        if place <= stay.first <= place + HOLD:
            regime = next(one for one in findings.regimes if one.label == stay.label)
            new = stay.first == regime.first
            return f"; {'' if new else 'back to '}regime {stay.label}{' begins' if new else ''}"
    return ""


def _count(n: int, what: str) -> str:
    plural = "" if n == 1 or what.endswith(("is", "are")) else "s"
    return f"{n:,} {what}{plural}"


def _percent(share: float) -> str:
    if share >= 0.9995:
        return "100 %" if share == 1 else "99.9 %"
    return f"{100 * share:.1f} %" if share >= 0.001 else "under 0.1 %"
