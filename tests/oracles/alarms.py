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
