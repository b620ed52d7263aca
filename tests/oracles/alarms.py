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


class FleetTwin:
    """Alarms by key: each key with its own lists, and one list of levelled scores for each age."""

    def __init__(self, rate, average):
        self.rate, self.average = rate, average
        self.keys = {}
        self.ages = [AlarmTwin(rate, average) for _ in range(3)]
        self.level, self.n = 0.0, 0

    def step(self, key, score, label=None):
        """Judge and learn one score of a key; return mean, threshold, alarm, began, ended."""
        own = self.keys.setdefault(key, AlarmTwin(self.rate, self.average))
        if not own.scores:
            own.level, own.news, own.total, own.peak = 0.0, (-1, 0, 0.0), 0.0, 0.0
            own.newest, own.regimes = -1, {}
        n = len(own.scores)
        age = sum(n >= older for older in (8, 64))
        m = len(own.former) + len(own.current)
        largest = sorted(own.former + own.current, reverse=True)
        threshold, _ = own.threshold()
        tail = largest[:20]
        excess = sum(x - tail[-1] for x in tail) / (len(tail) - 1) if len(tail) > 1 else 0.0
        best = largest[0] if largest else -math.inf
        level = (self.level + min(n, 1000) * own.level) / (min(n, 1000) + 1)
        cap = math.inf
        if m >= 20 or threshold < math.inf:
            cap = (threshold if threshold < math.inf else best) + 2.0 * excess
        if math.floor(self.rate * (m + 1) + 1e-9) == 0:
            threshold = math.inf
            for younger in range(age, -1, -1):
                pooled, _ = self.ages[younger].threshold(pooled=True)
                if pooled < math.inf:
                    threshold = cap = max(level + pooled, best)
                    break
        if math.isnan(score):
            return math.nan, threshold, False, False, False
        own.scores.append(score)
        recent = own.scores[-self.average :]
        mean = sum(recent) / len(recent)
        judged = mean
        if label is not None:
            judged = self._added_up(own, label, mean - level, n) + level
        if len(recent) < self.average:
            return judged, threshold, False, False, False
        alarm = judged > threshold
        unknown = math.isinf(threshold)
        differ = own.began + own.began_before > 3 + 2.0 * self.rate * m
        odd = alarm or (unknown and mean > cap)
        if odd or (unknown and own.left):
            own.total = 0.0
        if own.left and not (unknown and differ):
            own.left = own.quiet if alarm else own.left - 1
            if unknown:
                _enter(own, -math.inf)
            return judged, threshold, alarm, False, own.left == 0 and not unknown
        own.left = own.quiet if odd else 0
        self.n = min(self.n + 1, 10_000)
        self.level = _followed(self.level, min(mean, cap), self.n)
        own.level = _followed(own.level, min(mean, cap), min(len(own.scores), 1000))
        highest = max(judged - level, own.peak) if own.peak else judged - level
        if own.total:
            own.peak = highest
            return judged, threshold, alarm, alarm, False
        own.peak = 0.0
        value = min(highest + level, cap)
        pool = self.ages[age]
        n_pool = len(pool.former) + len(pool.current)
        if not alarm or pool.began + pool.began_before <= 3 + self.rate * n_pool:
            pool.began += alarm
            _enter(pool, value - level, 4.0)
        if differ:
            value = highest + level
        own.began += odd
        _enter(own, value)
        return judged, threshold, alarm, alarm, False

    @staticmethod
    def _added_up(own, label, excess, n):
        """Add the excesses of rows, of a new regime's that of its first; one of each is usual.

        ``own.regimes``: of six at most the rows, the excess of the first, the place of the last.
        """
        known = own.regimes.get(label)
        if label > own.newest:
            if len(own.regimes) == 6:
                del own.regimes[max(own.regimes, key=lambda name: own.regimes[name][0])]
            own.newest, own.news = label, (label, n if n >= 200 else -20, excess)
            known = own.regimes[label] = [0, excess if n >= 200 else 0.0, n]
        elif known and n - known[2] > 20 and 20 * known[0] < n and known[1] > 0.0:
            own.news = label, n, known[1]
        if known:
            known[0], known[2] = known[0] + 1, n
        if label == own.news[0] and n - own.news[1] < 20:
            excess = max(excess, own.news[2])
        before = own.total
        own.total = max(before + min(excess, 30.0) - 1.0, 0.0)
        return before + excess


def _enter(twin, value, faster=1.0):
    twin.current.append(value)
    if len(twin.current) >= 10 / (faster * twin.rate):
        twin.former, twin.current = twin.current, []
        twin.began_before, twin.began = twin.began, 0


def _followed(level, value, n):
    rise = value - level
    return level + (min(rise, 30.0) if n > 1 else rise) / n
