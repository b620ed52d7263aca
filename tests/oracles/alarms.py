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

    def threshold(self):
        """Return the threshold, and the most with which the next score may be calibrated on."""
        falling = sorted(self.former + self.current, reverse=True)
        m = len(falling)
        tail = falling[:20]
        J = len(tail)
        excess = sum(x - tail[-1] for x in tail) / (J - 1) if J > 1 else 0.0
        k = math.floor(self.rate * (m + 1) + 1e-9)
        if k > 0:
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
        if math.isnan(score):
            return math.nan, threshold, False
        self.scores.append(score)
        recent = self.scores[-self.average :]
        mean = sum(recent) / len(recent)
        if len(recent) < self.average:
            return mean, threshold, False
        alarm = mean > threshold
        if self.left:
            self.left = self.quiet if alarm else self.left - 1
            return mean, threshold, alarm
        self.current.append(min(mean, cap))
        self.began += alarm
        if len(self.current) >= 10 / self.rate:
            self.former, self.current = self.current, []
            self.began_before, self.began = self.began, 0
        if alarm:
            self.left = self.quiet
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
            own.level = 0.0
        n = len(own.scores)
        age = sum(n >= older for older in (8, 64))
        m = len(own.former) + len(own.current)
        largest = sorted(own.former + own.current, reverse=True)
        threshold, cap = own.threshold()
        tail = largest[:20]
        excess = sum(x - tail[-1] for x in tail) / (len(tail) - 1) if len(tail) > 1 else 0.0
        best = largest[0] if largest else -math.inf
        level = (self.level + min(n, 1000) * own.level) / (min(n, 1000) + 1)
        if math.floor(self.rate * (m + 1) + 1e-9) == 0:
            threshold = math.inf
            for younger in range(age, -1, -1):
                pool = self.ages[younger]
                pooled, _ = pool.threshold()
                if pooled < math.inf:
                    threshold = max(level + pooled, best)
                    top = sorted(pool.former + pool.current, reverse=True)[:20]
                    excess = sum(x - top[-1] for x in top) / (len(top) - 1)
                    break
        stays = False
        if label is not None:
            own.labels = [*getattr(own, "labels", []), (label, score - level, n)]
            score, stays = self._with_birth(own.labels, score, level)
        if math.isnan(score):
            return math.nan, threshold, False, False, False
        own.scores.append(score)
        recent = own.scores[-self.average :]
        mean = sum(recent) / len(recent)
        if len(recent) < self.average:
            return mean, threshold, False, False, False
        alarm = mean > threshold
        if own.left:
            own.left = own.quiet if alarm else own.left - 1
            return mean, threshold, alarm, False, own.left == 0
        if alarm:
            own.left = own.quiet
        if stays:
            return mean, threshold, alarm, alarm, False
        cap = math.inf
        if m >= 20 or threshold < math.inf:
            cap = (threshold if threshold < math.inf else best) + 2.0 * excess
        value = min(mean, cap)
        pool = self.ages[age]
        n_pool = len(pool.former) + len(pool.current)
        if not alarm or pool.began + pool.began_before <= 3 + 2.0 * self.rate * n_pool:
            pool.began += alarm
            _enter(pool, value - level)
        self.n = min(self.n + 1, 10_000)
        self.level = _followed(self.level, value, self.n)
        own.level = _followed(own.level, value, min(len(own.scores), 1000))
        if own.began + own.began_before > 3 + 2.0 * self.rate * m:
            value = mean
        own.began += alarm
        _enter(own, value)
        return mean, threshold, alarm, alarm, False

    @staticmethod
    def _with_birth(labels, score, level):
        """Count the rows of the newest label since its first, among the last 20 of the key."""
        newest = max(label for label, *_ in labels)
        rows = [place for place, (label, *_) in enumerate(labels) if label == newest]
        _, excess, n = labels[rows[0]]
        is_news = n >= 200 and len(labels) - rows[0] <= 20 and not math.isnan(excess)
        if labels[-1][0] != newest or not is_news or math.isnan(score):
            return score, False
        return max(score, level + len(rows) * max(excess, 0.0)), len(rows) > 1


def _enter(twin, value):
    twin.current.append(value)
    if len(twin.current) >= 10 / twin.rate:
        twin.former, twin.current = twin.current, []
        twin.began_before, twin.began = twin.began, 0


def _followed(level, value, n):
    rise = value - level
    return level + (min(rise, 30.0) if n > 1 else rise) / n
