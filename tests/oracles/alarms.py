"""The alarm the slow way: every score is kept, every order statistic looked up."""

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

    def threshold(self, pooled=False):
        """Return the threshold, and the most with which the next score may be calibrated on."""
        falling = sorted(self.former + self.current, reverse=True)
        m = len(falling)
        tail = falling[:20]
        J = len(tail)
        cut = self.rate * (m + 1) if pooled else 0.0
        excess = sum(x - tail[-1] for x in tail) / (J - 1 - cut) if J > 1 else 0.0
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
        self.current.append(min(mean, cap))
        self.began += odd
        if len(self.current) >= 10 / self.rate:
            self.former, self.current = self.current, []
            self.began_before, self.began = self.began, 0
        self.left = self.quiet if odd else 0
        return mean, threshold, alarm


def alarms(scores, rate, average=1):
    """Return means, thresholds, alarms of a whole stream."""
    twin = AlarmTwin(rate, average)
    rows = [twin.step(float(score)) for score in scores]
    return tuple(np.array(column) for column in zip(*rows, strict=True))


class KeyTwin(AlarmTwin):
    """What is known of one of many keys."""

    def __init__(self, rate, average):
        super().__init__(rate, average)
        self.level, self.afresh, self.total, self.peak, self.zero = 0.0, 0, 0.0, 0.0, 0
        self.crowd, self.highest, self.judge = 0, 0.0, None
        self.news, self.since, self.excess = -1, 0, 0.0
        self.places = []  # of six labels at most: label, rows, excess of the first, last seen
        self.lasted = 0

    def like(self):
        """Return the crowd: of an age, or of as many regimes."""
        n = len(self.scores)
        if self.total > 0.0:
            return self.crowd
        return sum(n >= age for age in (8, 64)) if n < 64 else min(2 + self.lasted, 7)

    def is_news(self, label, excess, n):
        """Note a label; return whether its rows surprise as the first of what is new did."""
        self.since += 1
        at = next((i for i, place in enumerate(self.places) if place[0] == label), None)
        new = label > max([self.news, *(place[0] for place in self.places)])
        if at is None and (new or len(self.places) < 6):
            at = len(self.places)
            if at == 6:
                usual = [i for i in range(6) if self.places[i][2] == 0.0]
                at = min(usual, key=lambda i: self.places[i][3]) if usual else None
            if at is None:
                at = max(range(6), key=lambda i: self.places[i][1])
            self.places[at : at + 1] = [[label, 0, 0.0, 0]]
        place = None if at is None else self.places[at]
        if new:
            if self.news < 0:
                self.excess, self.since = 0.0, 20
            elif self.since < 20:
                self.excess = max(excess, self.excess)
            else:
                self.excess, self.since = excess, 0
            self.news = label
        elif place and n - place[3] > 20 and 20 * place[1] < n and place[2] > 0.0:
            self.news, self.excess, self.since = label, place[2], 0
        if place:
            place[1], place[3] = place[1] + 1, n
            self.lasted += place[1] == 20
        young = place is not None and place[1] <= 20
        return (label == self.news or young) and self.since < 20

    def added_up(self, label, excess, n):
        """Add the excesses of rows, of what is new that of its first; one of each is usual."""
        if self.is_news(label, excess, n):
            excess = max(excess, self.excess)
        before = 0.0 if self.since == 20 else self.total
        self.total = max(before + min(excess, 30.0) - 1.0, 0.0)
        return before + excess


class FleetTwin:
    """Alarms by key: each key with its own lists, and one list of levelled scores a crowd."""

    def __init__(self, rate, average):
        self.rate, self.average = rate, average
        self.keys = {}
        self.crowds = [AlarmTwin(rate, average) for _ in range(8)]
        self.level, self.n = 0.0, 0

    def step(self, key, score, label=None):
        """Judge and learn one score of a key; return mean, threshold, alarm, began, ended."""
        own = self.keys.setdefault(key, KeyTwin(self.rate, self.average))
        n = len(own.scores)
        steady = min(n - own.afresh, 1000)
        level = (self.level + steady * own.level) / (steady + 1)
        threshold, cap, judge = self.threshold(own, level)
        if judge != own.judge:
            own.judge, own.total, own.peak = judge, 0.0, 0.0
        if math.isnan(score):
            return math.nan, threshold, False, False, False
        if (crowd := own.like()) != own.crowd:
            own.crowd, own.highest = crowd, 0.0
        m = len(own.former) + len(own.current)
        own.scores.append(score)
        recent = own.scores[-self.average :]
        mean = sum(recent) / len(recent)
        judged = mean
        if label is not None:
            judged = own.added_up(label, mean - level, n) + level
        if len(recent) < self.average:
            return judged, threshold, False, False, False
        alarm = judged > threshold
        unknown = math.isinf(threshold)
        differ = own.began + own.began_before > 3 + 2.0 * self.rate * m
        odd = alarm or (unknown and mean > cap)
        if odd or (unknown and own.left):
            own.total = 0.0
        for place in own.places:
            if alarm and own.since < 20 and place[0] == own.news:
                place[2] = max(own.excess, 0.0)
        if own.left and not (unknown and differ):
            own.left = own.quiet if alarm else own.left - 1
            if unknown:
                _enter(own, -math.inf)
            elif own.left == 0 and own.lasted > 1:
                own.afresh, own.total, own.peak = max(n + 1 - 8, 0), 0.0, 0.0
            return judged, threshold, alarm, False, own.left == 0 and not unknown
        own.left = own.quiet if odd else 0
        self.n = min(self.n + 1, 10_000)
        self.level = _followed(self.level, min(mean, cap), self.n)
        own.level = _followed(own.level, min(mean, cap), min(n + 1 - own.afresh, 1000))
        highest = max(judged - level, own.peak) if own.peak else judged - level
        if own.lasted > 1 and (n + 1 == 248 or n + 1 - own.zero >= 100):
            own.afresh, own.total = n + 1 - 8, 0.0
        if own.total:
            own.peak = highest
            return judged, threshold, alarm, alarm, False
        own.peak, own.zero = 0.0, n + 1
        value = min(highest + level, cap)
        pool = self.crowds[crowd]
        n_pool = len(pool.former) + len(pool.current)
        if not alarm or pool.began + pool.began_before <= 3 + self.rate * n_pool:
            pool.began += alarm
            _enter(pool, value - level, 4.0)
        own.highest = max(own.highest, value - level)
        if differ:
            value = highest + level
        own.began += odd
        _enter(own, value)
        return judged, threshold, alarm, alarm, False

    def threshold(self, own, level):
        """Return threshold, cap, and the crowd that judges, None: the key itself, or nobody."""
        largest = sorted(own.former + own.current, reverse=True)
        m = len(largest)
        threshold, _ = own.threshold()
        tail = largest[:20]
        excess = sum(x - tail[-1] for x in tail) / (len(tail) - 1) if len(tail) > 1 else 0.0
        if math.floor(self.rate * (m + 1) + 1e-9) == 0:
            threshold = math.inf
            crowd = own.like()
            highest = largest[0] - level if largest else -math.inf
            if own.lasted > 1:
                highest = own.highest if crowd == own.crowd else 0.0
            for judge in range(crowd, -1, -1):
                pooled, _ = self.crowds[judge].threshold(pooled=True)
                if pooled < math.inf:
                    threshold = level + max(pooled, highest)
                    return threshold, threshold, judge
        cap = math.inf
        if m >= 20 or threshold < math.inf:
            cap = (threshold if threshold < math.inf else largest[0]) + 2.0 * excess
        return threshold, cap, None


def _enter(twin, value, faster=1.0):
    twin.current.append(value)
    if len(twin.current) >= 10 / (faster * twin.rate):
        twin.former, twin.current = twin.current, []
        twin.began_before, twin.began = twin.began, 0


def _followed(level, value, n):
    rise = value - level
    return level + (min(rise, 30.0) if n > 1 else rise) / n
