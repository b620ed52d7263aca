"""The alarm the slow way: every score is kept, every order statistic looked up."""

import copy
import math

import numpy as np


class AlarmTwin:
    """Calibration rows of the former and the present block in two plain lists."""

    def __init__(self, rate, average):
        self.rate, self.average = rate, average
        self.scores, self.former, self.current = [], [], []
        self.began, self.began_before = 0, 0  # alarms, in the present block and the former
        self.left = 0
        self.quiet = max(average, 10)

    def threshold(self, pooled=False, nats=False):
        """Return the threshold, and the most with which the next score may be calibrated on."""
        falling = sorted(self.former + self.current, reverse=True)
        m = len(falling)
        tail = falling[:20]
        J = len(tail)
        cut = self.rate * (m + 1) if pooled else 0.0
        excess = sum(x - tail[-1] for x in tail) / (J - 1 - cut) if J > 1 else 0.0
        excess = max(excess, 1.0) if nats else excess
        k = math.floor(self.rate * (m + 1) + 1e-9)
        if k > 0 and not pooled:
            threshold = falling[k - 1]
        elif m < 100 or 10.0 * self.rate * (m + 1) < 1.0:
            threshold = math.inf
        else:
            share = J / (self.rate * (m + 1))
            threshold = tail[-1] + excess * (J - 1) * (share ** (1.0 / (J - 1)) - 1.0)
        if m < 20 or self.began + self.began_before > 3 + 2.0 * self.rate * m:
            return threshold, math.inf
        return threshold, (threshold if threshold < math.inf else tail[0]) + 2.0 * excess

    def step(self, score):
        """Judge and learn one score; return mean, threshold, alarm."""
        threshold, cap = self.threshold()
        differ = self.began + self.began_before > 3 + 2.0 * self.rate * len(
            self.former + self.current
        )
        if math.isnan(score):
            return math.nan, threshold, False
        self.scores.append(score)
        recent = self.scores[-self.average :]
        mean = sum(recent) / len(recent)
        if len(recent) < self.average:
            return mean, threshold, False
        alarm = mean > threshold
        if self.left and not (math.isinf(threshold) and differ):
            self.left = self.quiet if alarm else self.left - 1
            if math.isinf(threshold):
                _enter(self, -math.inf)
            return mean, threshold, alarm
        odd = alarm or (math.isinf(threshold) and mean > cap)
        self.began += odd
        _enter(self, min(mean, cap))
        self.left = self.quiet if odd else 0
        return mean, threshold, alarm


def alarms(scores, rate, average=1):
    """Return means, thresholds, alarms of a whole stream."""
    twin = AlarmTwin(rate, average)
    rows = [twin.step(float(score)) for score in scores]
    return tuple(np.array(column) for column in zip(*rows, strict=True))


class Regime:
    """A regime that a key was in: one of the sixteen that were there last."""

    def __init__(self, label, n, visits):
        self.label, self.seen, self.visits = label, n, visits
        self.rows, self.first, self.level = 0, 0.0, 0.0


class KeyTwin(AlarmTwin):
    """What is known of one of many keys."""

    def __init__(self, rate, average):
        super().__init__(rate, average)
        self.level, self.total, self.peak, self.zero = 0.0, 0.0, 0.0, 0
        self.crowd, self.highest, self.judge = 0, 0.0, None
        self.news, self.since, self.excess, self.recent = -1, 0, 0.0, 0.0
        self.regimes, self.regime, self.newest = [], None, -1
        self.lasted, self.last, self.runs = 0, 0.0, 0.0

    def like(self):
        """Return the crowd: of an age, or of as many regimes."""
        n = len(self.scores)
        if self.total > 0.0:
            return self.crowd
        return sum(n >= age for age in (8, 64)) if n < 64 else min(2 + self.lasted, 7)

    def usual(self, all_keys):
        """Return the score that is expected before a row, by the regime of the row before it."""
        n = min(len(self.scores), 1000)
        level = (all_keys + n * self.level) / (n + 1)
        if self.regime is None:
            return level
        rows = min(self.regime.rows, 100)
        return ((100 - rows) * level + rows * self.regime.level) / 100

    def is_news(self, label, excess, n):
        """Note a label; return whether its rows surprise as the first of what is new did."""
        self.since += 1
        self.recent = excess = max(excess, self.recent - 1.0)
        regime = next((r for r in self.regimes if r.label == label), None)
        new = label > self.newest
        if regime is None:
            if len(self.regimes) == 16:
                self.regimes.remove(min(self.regimes, key=lambda r: r.seen))
            regime = Regime(label, n, 1)
            self.regimes.append(regime)
        if new:
            if self.news < 0:
                excess, self.since, self.news = 0.0, 20, label
            elif self.since < 20:
                excess = max(excess, self.excess)
            else:
                self.since, self.news = 0, label
            self.excess, self.newest = excess, label
        elif n - regime.seen > 20:
            seldom = regime.visits <= 3 + self.rate * n and 20 * regime.rows < n
            if seldom and regime.first > 0.0:
                self.news, self.excess, self.since = label, regime.first, 0
            regime.visits += 1
        regime.rows, regime.seen = regime.rows + 1, n
        self.lasted += regime.rows == 20
        self.regime = regime
        return self.in_event(regime) and self.since < 20

    def in_event(self, regime):
        """Whether a regime is the first of the last event, or began after it, not long ago."""
        return regime.label == self.news or (regime.label > self.news and regime.rows <= 20)

    def added_up(self, label, excess, n):
        """Add the excesses of rows, of what is new that of its first; one of each is usual."""
        if self.is_news(label, excess, n):
            excess = max(excess, self.excess)
        before = 0.0 if self.since == 20 else self.total
        self.total = max(before + min(excess, 30.0) - 1.0, 0.0)
        return before + excess


class FleetTwin:
    """Alarms by key: each key with its own lists, and one list of excesses a crowd."""

    def __init__(self, rate, average):
        self.rate, self.average = rate, average
        self.keys = {}
        self.crowds = [AlarmTwin(rate, average) for _ in range(8)]
        self.level, self.n = 0.0, 0
        self.sign, self.lag, self.n_signs = 0.0, 0.0, 0

    def carried(self, own):
        """Return how much of the last excess comes again, by the correlation of signs."""
        square = min(self.sign**2, 0.9)
        r = min(max((own.runs - square) / (1.0 - square), 0.0), 1.0)
        return math.sin(math.pi * r / 2.0) * own.last

    def follow_runs(self, own, last, excess):
        """Update the means of signs and of products of consecutive ones."""
        if len(own.scores) > 20:
            sign = 1 if excess > 0.0 else -1
            both = sign if last > 0.0 else -sign
            self.n_signs += 1
            gain = 1.0 / min(self.n_signs + 1000, 100_000)
            self.sign += gain * (sign - self.sign)
            self.lag += gain * (both - self.lag)
            own.runs += (both - own.runs) / min(50 + len(own.scores), 1000)
        else:
            own.runs = self.lag
        own.last = excess

    def step(self, key, score, label=None):
        """Judge and learn one score of a key; return mean, threshold, alarm, began, ended."""
        own = self.keys.setdefault(key, KeyTwin(self.rate, self.average))
        n = len(own.scores)
        usual, carried = own.usual(self.level), self.carried(own)
        usual += carried
        limit, cap, judge = self.limit(own)
        if judge != own.judge:
            own.judge, own.total, own.peak = judge, 0.0, 0.0
        if math.isnan(score):
            return math.nan, usual + limit, False, False, False
        if (crowd := own.like()) != own.crowd:
            own.crowd, own.highest = crowd, 0.0
        m = len(own.former) + len(own.current)
        own.scores.append(score)
        recent = own.scores[-self.average :]
        mean = sum(recent) / len(recent)
        excess = mean - usual
        if label is not None:
            excess = own.added_up(label, excess, n)
        if len(recent) < self.average:
            return excess + usual, usual + limit, False, False, False
        if own.regime is not None:
            regime = own.regime
            regime.level = _followed(regime.level, mean, regime.rows)
        alarm = excess > limit
        unknown = math.isinf(limit)
        differ = own.began + own.began_before > 3 + 2.0 * self.rate * m
        odd = alarm or (unknown and mean - usual > cap)
        if odd or (unknown and own.left):
            own.total = 0.0
        for regime in own.regimes:
            if alarm and own.since < 20 and own.in_event(regime):
                regime.first = max(own.excess, 0.0)
        last, own.last = own.last, 0.0
        if own.left and not (unknown and differ):
            own.left = own.quiet if alarm else own.left - 1
            if unknown:
                _enter(own, -math.inf)
            return excess + usual, usual + limit, alarm, False, own.left == 0 and not unknown
        own.left = own.quiet if odd else 0
        self.n += 1
        self.level = _followed(self.level, min(mean, usual + cap), self.n)
        if label is not None:
            self.follow_runs(own, last, min(mean - usual + carried, 30.0))
        own.level = _followed(own.level, min(mean, usual + cap), n + 1)
        highest = max(excess, own.peak) if own.peak else excess
        if n + 1 - own.zero >= 100:
            own.total = 0.0
        if own.total:
            own.peak = highest
            return excess + usual, usual + limit, alarm, alarm, False
        own.peak, own.zero = 0.0, n + 1
        value = min(highest, cap)
        pool = self.crowds[crowd]
        n_pool = len(pool.former) + len(pool.current)
        if not alarm or pool.began + pool.began_before <= 3 + self.rate * n_pool:
            pool.began += alarm
            _enter(pool, value, 4.0)
        own.highest = max(own.highest, value)
        own.began += odd
        _enter(own, highest if differ else value)
        return excess + usual, usual + limit, alarm, alarm, False

    def limit(self, own):
        """Return the most excess, cap, and the crowd that judges, None: the key, or nobody."""
        nats = own.regime is not None
        largest = sorted(own.former + own.current, reverse=True)
        m = len(largest)
        limit, _ = own.threshold(nats=nats)
        tail = largest[:20]
        excess = sum(x - tail[-1] for x in tail) / (len(tail) - 1) if len(tail) > 1 else 0.0
        if nats:
            limit, excess = max(limit, 1.0), max(excess, 1.0)
        if math.floor(self.rate * (m + 1) + 1e-9) == 0:
            crowd = own.like()
            highest = largest[0] if largest else -math.inf
            if own.lasted > 1:
                highest = own.highest if crowd == own.crowd else 0.0
            for judge in range(crowd, -1, -1):
                pooled, _ = self.crowds[judge].threshold(pooled=True, nats=nats)
                if pooled < math.inf:
                    limit = max(pooled, highest, 1.0 if nats else -math.inf)
                    return limit, limit, judge
            rows = [len(pool.former) + len(pool.current) for pool in self.crowds[: crowd + 1]]
            if len(own.scores) >= 200 and max(rows[2:]) >= 3000:
                judge = max(range(2, crowd + 1), key=lambda c: (rows[c], c))
                pool = copy.copy(self.crowds[judge])
                pool.rate = (1.0 + 1e-9) / 10.0 / (rows[judge] + 1)
                pooled, _ = pool.threshold(pooled=True, nats=nats)
                limit = max(pooled, highest, 1.0 if nats else -math.inf)
                return limit, limit, judge
        cap = math.inf
        if m >= 20 or limit < math.inf:
            cap = (limit if limit < math.inf else largest[0]) + 2.0 * excess
        return limit, cap, None


def _enter(twin, value, faster=1.0):
    twin.current.append(value)
    least = max(200, 0.1 / twin.rate, 3 * len(twin.former))
    if len(twin.current) >= min(least, 10 / (faster * twin.rate)):
        twin.former, twin.current = twin.current, []
        twin.began_before, twin.began = twin.began, 0


def _followed(level, value, n):
    rise = value - level
    return level + (min(rise, 30.0) if n > 1 else rise) / min((n + 3) / 4, 1000)
