"""The report page about the regimes of a numeric series."""

from typing import Any

import numpy as np

from streamddcrp.plots.figures import printable
from streamddcrp.plots.findings import Findings, Regime, odd_features
from streamddcrp.plots.palette import COLOURS, colours_of
from streamddcrp.plots.segments import HOLD, Visit
from streamddcrp.plots.timeline import N_COLOURS, render
from streamddcrp_connectors.report.page import page_of, picture_of
from streamddcrp_connectors.report.words import began, beginning, number, percent

N_VISITS = 300  # the longest stays, each with a row of its own
N_REGIMES = 40
N_COLUMNS = 200
DOTS = " in the colour of its regime"


def page_of_regimes(findings: Findings) -> str:
    """Write the page: the picture, the regimes, surprising moments, and the stays.

    Bars of the picture link to rows of the tables, and rows link back.
    """
    series, facts = findings.series, beginning(findings)
    longest = sorted(findings.visits, key=lambda stay: (stay.first - stay.last, stay.first))
    stays = sorted(longest[:N_VISITS], key=lambda stay: stay.first)
    urls: dict[Visit | int, str] = {stay: f"#visit-{n}" for n, stay in enumerate(stays, start=1)}
    urls |= {rank: f"#moment-{rank}" for rank in range(1, len(findings.moments) + 1)}
    svg = render(findings, ("svg",), urls, {"svg.fonttype": "none"})["svg"]
    largest = findings.largest(N_REGIMES)
    n_left = len(findings.regimes) - len(largest)
    left_out = f" The {n_left:,} smallest regimes are left out." if n_left > 0 else ""
    n_coloured = 0 if series.causes else N_COLOURS
    coloured = colours_of(regime.label for regime in findings.largest(n_coloured))
    place_of = {label: COLOURS.index(colour) for label, colour in coloured.items()}
    return page_of(
        "regimes.html",
        title=series.name,
        facts=facts,
        picture=picture_of(
            svg,
            " ".join([*facts, "The tables below say what is in the picture."]),
            _links(findings, stays),
        ),
        caption=f"Each panel is a column, each dot a row{'' if series.causes else DOTS}; below "
        "them how surprising each row was, and when each regime was present. Bars and numbers are "
        "links to the tables.",
        example="regime 2, a date, a column",
        rule=f"A regime is a state that lasted for at least {HOLD} consecutive rows; one that "
        f"comes back keeps its number.{left_out}",
        regimes=[
            {"colour": place_of.get(regime.label)} | _regime(findings, regime) for regime in largest
        ],
        columns=_columns(findings, largest),
        n_columns=len(series.features),
        moments=[_moment(findings, k, p) for k, p in enumerate(findings.moments, start=1)],
        visits=[
            {"number": n, "colour": place_of.get(stay.label)} | _visit(findings, stay)
            for n, stay in enumerate(stays, start=1)
        ],
        n_visits=len(findings.visits),
    )


def _links(findings: Findings, stays: list[Visit]) -> dict[str, tuple[str, str]]:
    """Return the names of the picture's links, and the ids for links back."""
    series, at = findings.series, findings.series.clock.at
    bands = {
        f"#visit-{n}": (
            f"band-{n}",
            f"{series.name_of(stay.label)}, {at(stay.first)} to {at(stay.last)}",
        )
        for n, stay in enumerate(stays, start=1)
    }
    return bands | {
        f"#moment-{rank}": (f"peak-{rank}", f"surprising moment {rank}, {at(place)}")
        for rank, place in enumerate(findings.moments, start=1)
    }


def _regime(findings: Findings, regime: Regime) -> dict[str, Any]:
    series, at = findings.series, findings.series.clock.at
    return {
        "label": regime.label, "name": series.name_of(regime.label),
        "n_rows": f"{regime.n_rows:,}", "share": percent(regime.share), "first": at(regime.first),
        "last": "there at the end" if findings.lasts(regime) else at(regime.last),
        "returns": regime.n_returns or "",
    }  # fmt: skip


def _columns(findings: Findings, regimes: list[Regime]) -> list[dict[str, Any]]:
    """Return each column's name and, by regime, its mean and range."""

    def cell(regime: Regime, d: int) -> tuple[str, str]:
        if np.isnan(regime.mean[d]):
            return "missing", ""
        low, high = number(regime.low[d]), number(regime.high[d])
        return number(regime.mean[d]), "" if low == high else f"{low} to {high}"

    return [
        {"name": printable(name), "cells": [cell(regime, d) for regime in regimes]}
        for d, name in enumerate(findings.series.features[:N_COLUMNS])
    ]


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


def _visit(findings: Findings, stay: Visit) -> dict[str, Any]:
    series, clock = findings.series, findings.series.clock
    return {
        "name": series.name_of(stay.label), "first": clock.at(stay.first),
        "last": clock.at(stay.last), "length": clock.span(stay.first, stay.last),
        "n_rows": f"{stay.last - stay.first + 1:,}",
    }  # fmt: skip
