"""Periods of seasons: as an option says them, and as the first rows show them.

An estimate has three steps. *Candidates* are the highest peaks of a comb periodogram: of the steps
from row to row, clipped at 3 deviations, so that neither a random walk nor a jump of the level
looks like a long period; power is divided by its median nearby, so that noise of any colour is
flat; and the excess of up to 12 harmonics is added. *The test* is how the season would have done:
for each candidate the first rows are predicted one by one as later ones will be, by "level +
season" and by "level" alone, and the log scores must differ by 5 nats and the log of the number of
frequencies and of looks. Under the law of the level such a lead has probability e^-5 at most
(Ville's inequality and a union bound). *Ties*: multiples of a period fit as
well as the period, so the shortest candidate wins that is not clearly worse than the best. A
second, longer period, a multiple of the first, must lead in the same way over the first alone,
with 12 harmonics, which are learned sooner, or with 24.

The test is nearly all of the work, up to two seconds for 4,096 rows of three columns. It is done in
portions, so that no row has to wait for it.
"""

import math
from collections.abc import Generator, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy

from streamddcrp.arguments import as_list
from streamddcrp.data.epochs import make_cut
from streamddcrp.data.seasons.tracker import FIRST_HARMONICS, HARMONICS, NEEDED, NYQUIST, Tracker
from streamddcrp.data.times import typical_gap
from streamddcrp.errors import ConfigError
from streamddcrp.typing import FloatArray
from streamddcrp.validation import positive

CLOCK = {"hour": 3600.0, "day": 86400.0, "week": 604800.0, "year": 31556952.0}  # seconds
CYCLES = 4  # of a period that must have been seen
LEAST = 1.0 / NYQUIST  # rows in a period
LOOKS = 11  # how often a stream is looked at, each time with a chance to err
_PEAKS = 4  # of a periodogram that become candidates
_ALL_PEAKS = 6  # of all columns
_MULTIPLES = (1.0, 2.0, 3.0, 0.5)  # of a peak, in case it is a harmonic or a multiple
_COLUMNS = 3  # that are looked at, those with the highest peaks
_LONGER = (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 24, 28)  # times the first period, tried as the second
_SPARSE = 4  # a grid of times of more than so many places a row is no grid
_CAP = 50.0  # largest share of power over noise that counts: one strong harmonic is not all
_PADDED = 4  # places of the periodogram per cycle in all rows
_LOOK, _LOOK_ROWS = 4, 500  # work for the peaks of a column: for each row, and some rows more
AS_GOOD = 0.97  # of the power of a period: whole rows with it are as good
NEARLY = 0.8  # of the highest peak: as high as that, in noise
_AROUND = 24  # cycles in all rows to each side, over which the median is taken


class Question(NamedTuple):
    """A question to the first rows: by how much "level + season" leads over "level"."""

    periods: tuple[float, ...]  # in rows
    first: float = 0.0  # rows after which the lead is counted
    most: int = HARMONICS  # harmonics of a second period


Peaks = list[tuple[float, float]]  # periods in rows, and heights
Asking = Generator[Question, FloatArray, list[float]]


# Options ``season`` and ``period``; `streamddcrp.Seasonal` says what each kind means
Periods = str | float | Sequence[str | float] | None


def read_periods(option: Any) -> tuple[list[float], bool]:
    """Read given periods ("auto", "calendar": none), rising; and whether they need rows with times.

    Numbers stay as they are, names and durations become seconds; raises ConfigError.
    """
    single = isinstance(option, str) or not isinstance(option, Iterable)
    items = [option] if single else as_list("period", option)
    found, needs_clock = set(), False
    for item in items:
        if isinstance(item, str):
            needs_clock = True
            found |= {86400.0, 604800.0} if item == "week" else {_duration(item)}
        else:
            found.add(positive("period", item, "a name such as 'day', or 'auto'"))
    if not found:
        raise ConfigError(f"period must have at least one period, got {option!r}")
    return sorted(found), needs_clock


def _duration(text: str) -> float:
    if text in CLOCK:
        return CLOCK[text]
    try:
        cut = make_cut(text)
    except ConfigError:
        cut = make_cut(None)
    if cut.kind != "period":
        raise ConfigError(
            f"period must be 'auto', 'calendar', {', '.join(map(repr, CLOCK))}, a duration such as "
            f"'12h', a number, or a list of these; got {text!r}"
        )
    return cut.size


def in_words(periods: Iterable[float], gap: float, *, clocked: bool) -> str:
    """Say periods in plain words.

    Examples
    --------
    >>> in_words([86400.0, 604800.0], 3600.0, clocked=True), in_words([7.5], 1.0, clocked=False)
    ('a day and a week', '7.5 rows')
    """
    names = {seconds: f"a{'n' * (name == 'hour')} {name}" for name, seconds in CLOCK.items()}
    said = []
    for period in periods:
        rows = f"{period / gap:.4g} rows"
        if clocked:
            said.append(names.get(period, f"{period:.6g} in the unit of the times, {rows}"))
        else:
            said.append(rows)
    return " and ".join(said)


def likely_period(X: FloatArray) -> float | None:
    """Return the period that rows (N, D) at an even pace show most clearly; None: none is clear.

    A peak of the combs of all columns together is clear if it is higher than noise shows with
    probability e^-5, by the number of places at which it might be. Of those nearly as high as the
    highest the shortest is taken: its multiples fit as well.
    """
    combs = [_comb(x) for x in X.T]
    least, found = (
        NEEDED + math.log(0.5 * len(X) * X.shape[1]),
        _tops(np.sum(combs, axis=0), len(X)),
    )
    if not found or found[0][1] <= least:
        return None
    period = min(period for period, height in found if height >= NEARLY * found[0][1])
    place = round(_padded(len(X)) / period) - _first_place(len(X))
    return _refined(X[:, int(np.argmax([comb[place] for comb in combs]))], period)


class Search:
    """The search for periods in rows (N, D), in portions; in the unit of their times, if any.

    ``known``: periods found before, candidates again. ``found``: the periods, rising; None: not
    known yet. ``leads``: results of the tests so far, from which another search can go on. ``gap``:
    usual distance of two rows.
    """

    def __init__(self, X: FloatArray, t: FloatArray | None, known: Iterable[float] = ()) -> None:
        times = np.arange(float(len(X))) if t is None else t
        gap = 1.0 if t is None else typical_gap(t)
        grid = np.round((times - times[0]) / gap)
        self.found: list[float] | None = None
        self.leads: list[float] = []
        self.gap, self._t, self._most = gap, times / gap, float(grid[-1] + 1) / CYCLES
        self._seconds = list(CLOCK.values()) if t is not None else []
        self._known, self._candidates = [float(period) for period in known], list[float]()
        sparse = grid[-1] >= _SPARSE * len(X)
        self._X = X[:, :0] if sparse else X  # later, of the columns that are looked at
        self._places = grid[: 0 if sparse else None].astype(np.int64)
        self._peaks: list[Peaks] | None = None if sparse else []  # of the columns so far; None: all

    @property
    def n_columns(self) -> int:
        """Number of columns whose peaks are known, as long as there are others; else 0."""
        return 0 if self._peaks is None else len(self._peaks)

    @property
    def n_rows(self) -> int:
        """Number of rows that are searched."""
        return len(self._t)

    @property
    def nbytes(self) -> int:
        """Bytes that the arrays take."""
        return sum(array.nbytes for array in (self._X, self._t, self._places))

    def go(self, work: int) -> int:
        """Do more tests, of a column each, and return how much of the work is left.

        Work is coefficients times rows; the last test may exceed it. With very many columns finding
        their peaks comes first. A restored search repeats what it knows at no cost: its state is
        rows and leads.
        """
        if self.found is not None:
            return work
        self.look(self._X.shape[1], work)
        if self._peaks is not None:
            return 0
        asking, known, used = self._asking(), dict[Question, FloatArray](), 0
        try:
            question = next(asking)
            while True:
                if question not in known:
                    answer = np.empty(self._X.shape[1])
                    for column in range(len(answer)):
                        if used == len(self.leads):
                            if work <= 0:
                                return work
                            x = self._X[:, column : column + 1]
                            lead, done = _lead(x, self._t, question)
                            self.leads.append(lead)
                            work -= done
                        answer[column] = self.leads[used]
                        used += 1
                    known[question] = answer
                question = asking.send(known[question])
        except StopIteration as end:
            span = len(self._t) * self.gap
            self.found = [_named(period * self.gap, span, self._seconds) for period in end.value]
        return work

    def look(self, n_columns: int, work: float = math.inf) -> None:
        """Find peaks in at most ``n_columns`` columns; all peaks choose where to look next."""
        if self._peaks is None:
            return
        while len(self._peaks) < n_columns and work > 0:
            values = self._on_grid(len(self._peaks))
            self._peaks.append(_tops(_comb(values), len(values)))
            work -= _LOOK * (len(values) + _LOOK_ROWS)
        if len(self._peaks) == self._X.shape[1]:
            self._choose(self._peaks)
            self._peaks, self._places = None, self._places[:0]

    def _on_grid(self, d: int) -> FloatArray:
        """Return a column with one value for each usual gap; NaN: missing."""
        values = np.full(int(self._places[-1]) + 1, np.nan)
        values[self._places] = self._X[:, d]
        return values

    def _choose(self, peaks: list[Peaks]) -> None:
        """Choose the columns to be looked at, and the candidates, by the peaks of all columns."""
        order = sorted(range(len(peaks)), key=lambda d: -max(s for _, s in peaks[d] or [(0, 0.0)]))
        chosen = [d for d in order[:_COLUMNS] if peaks[d]]
        heights = [(height, period, d) for d in chosen for period, height in peaks[d]]
        highest = sorted(heights, reverse=True)[:_ALL_PEAKS]
        tops = [_refined(self._on_grid(d), period) for _, period, d in highest]
        rows = [period / self.gap for period in [*self._known, *self._seconds]]
        rows += [multiple * top for top in tops for multiple in _MULTIPLES]
        candidates: list[float] = []
        for period in rows:
            apart = all(abs(period - other) > 0.02 * other for other in candidates)
            if LEAST < period <= self._most and apart and chosen:
                candidates.append(period)
        self._X, self._candidates = np.ascontiguousarray(self._X[:, chosen]), sorted(candidates)

    def _asking(self) -> Asking:
        """Ask for leads, and return the candidates, in rows, that predict better than none."""
        n, D = self._X.shape
        if not self._candidates:
            return []
        needed = NEEDED + math.log(0.5 * n * D * LOOKS)
        fine = []
        for period in self._candidates:
            if (yield Question((period,))).max() > needed:
                fine.append(period)
        if not fine:
            return []
        first = 2.0 * fine[-1]
        leads = []
        for period in fine:
            leads.append(float((yield Question((period,), first)).max()))
        single = [p for p, lead in zip(fine, leads, strict=True) if lead >= max(leads) - needed]
        base = single[0]
        pairs = [(p, p * m) for p in single[:2] for m in _LONGER if p * m <= self._most]
        needed = NEEDED + math.log(max(len(pairs), 1) * D * 2)  # with few harmonics or many
        good = []
        for pair in pairs:
            if (yield from _gain(pair, base, 2.0 * pair[1])) > needed:
                good.append(pair)
        if not good:
            return [base]
        first = 2.0 * max(longer for _, longer in good)
        gains = []
        for pair in good:
            gains.append((yield from _gain(pair, base, first)))
        best = next(p for p, g in zip(good, gains, strict=True) if g >= max(gains) - needed)
        alone = (yield Question(best[1:], first)) - (yield Question((base,), first))
        was_harmonic = alone.max() >= max(gains) - needed  # the first
        return [*best[1:]] if was_harmonic else [*best]


def _gain(
    pair: tuple[float, float], base: float, first: float
) -> Generator[Question, FloatArray, float]:
    """Ask by how much two periods lead over one, in the column where it is most."""
    few = yield Question(pair, first, FIRST_HARMONICS)
    many = yield Question(pair, first, HARMONICS)
    one = yield Question((base,), first)
    return float((np.maximum(few, many) - one).max())


def _lead(x: FloatArray, t: FloatArray, question: Question) -> tuple[float, int]:
    """Return the lead in one column of rows, and the work that it took."""
    tracker = Tracker(question.periods, 1.0, 1, question.most, judges=True)
    rate = CYCLES / len(x)  # the same memory for all, or multiples win by a longer one
    first = max(tracker.setting.first, math.ceil(question.first))
    tracker.setting = tracker.setting._replace(
        most=math.inf, first=first, forget=rate, rate=rate, keep=1.0 - rate / 3.0
    )
    tracker.step(x, t)
    return float(tracker.state.lead[0]), len(x) * len(tracker.prior)


def _steps(values: FloatArray) -> FloatArray:
    """Return the steps between values, clipped; 0 where one is missing or nothing varies."""
    steps = np.diff(values)
    known = steps[np.isfinite(steps)]
    if not len(known):
        return np.zeros(len(steps))
    centre = float(np.median(known))
    spread = 1.4826 * float(np.median(np.abs(known - centre))) or float(known.std())
    return np.clip(np.where(np.isfinite(steps), steps - centre, 0.0), -3 * spread, 3 * spread)


def _padded(n: int) -> int:
    """Return the length to which n values are padded for their periodogram."""
    return 1 << math.ceil(math.log2(_PADDED * n))


def _first_place(n: int) -> int:
    """Return the place of the longest period in the periodogram of n values."""
    return math.ceil(CYCLES * _padded(n) / n)


def _comb(values: FloatArray) -> FloatArray:
    """Return the comb periodogram of values (N,), from `_first_place` on; 0 where there is none."""
    n, steps = len(values), _steps(values)
    size = _padded(n)
    places = np.arange(_first_place(n), int(size / LEAST) + 1)
    comb = np.zeros(len(places))
    if n < 8 * CYCLES or not steps.any():
        return comb
    power = np.abs(np.fft.rfft(steps * np.hanning(len(steps)), size)) ** 2
    around = 2 * int(_AROUND * size / n) + 1
    medians = scipy.ndimage.median_filter(np.log(power + 1e-300), around)
    noise = np.exp(medians) / math.log(2.0)
    share = np.clip(power / noise, 1.0, _CAP)
    excess = np.maximum(share - 1.0 - np.log(share) - 2.0, 0.0)
    for j in range(1, FIRST_HARMONICS + 1):
        inside = places * j < len(excess)
        comb[inside] += excess[places[inside] * j]
    return comb


def _tops(comb: FloatArray, n: int) -> Peaks:
    """Return the highest peaks of the comb of n values, the highest first."""
    comb, size, found = comb.copy(), _padded(n), Peaks()
    width = int(1.5 * size / n)
    for _ in range(_PEAKS if len(comb) else 0):
        top = int(comb.argmax())
        if comb[top] <= 0.0:
            break
        found.append((size / float(_first_place(n) + top), float(comb[top])))
        comb[max(0, top - width) : top + width + 1] = 0.0
    return found


def _refined(values: FloatArray, period: float) -> float:
    """Return the period nearby with most power in its first harmonics; whole rows if as good."""
    steps, n = _steps(values), len(values)
    rows, width = np.arange(len(steps)), period * period / n

    def power(p: float) -> float:
        wave = np.exp(2j * np.pi / p * rows)
        total, harmonic = 0.0, steps.astype(np.complex128)
        for _ in range(max(1, min(6, int(p * NYQUIST)))):
            harmonic = harmonic * wave
            total += float(np.abs(harmonic.sum()) ** 2)
        return total

    for step in (width / 4, width / 16):
        grid = [p for p in (period + step * k for k in range(-4, 5)) if p > LEAST]
        period = max(grid, key=power)
    whole = round(period)
    is_near = whole > LEAST and abs(period - whole) < 0.25 * whole**2 / n
    return float(whole) if is_near and power(whole) > AS_GOOD * power(period) else period


def _named(period: float, span: float, seconds: Iterable[float]) -> float:
    """Return the length of the clock's unit that cannot be told from a period, or the period."""
    near = [unit for unit in seconds if abs(period - unit) < 0.25 * period * period / span]
    return near[0] if near else period
