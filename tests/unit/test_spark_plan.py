"""The plan of a fleet on Spark: the simulation agrees with what can be known without it."""

from itertools import product

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks.spark_plan import main, makespan, shares


def test_each_task_goes_to_the_first_free_core():
    tasks = np.array([3.0, 1.0, 2.0, 2.0, 1.0])
    assert makespan(tasks, 1) == tasks.sum()
    assert makespan(tasks, 2) == 5.0  # 3 + 2, and 1 + 2 + 1
    assert makespan(tasks, 9) == 3.0
    best = min(
        max(tasks[[c == core for c in chosen]].sum() for core in (0, 1))
        for chosen in product((0, 1), repeat=len(tasks))
    )
    assert best <= makespan(tasks, 2) <= 2 * best  # Graham's bound


def test_shares_are_zipf():
    p = shares(1000, 1.0)
    assert p.sum() == pytest.approx(1.0)
    assert p[0] / p[9] == pytest.approx(10.0)


def test_equal_keys_without_slow_tasks_take_what_the_formula_says():
    """1,000 keys on one core, 60 rows each: no skew is left, so the trigger is the formula's."""
    chosen = ["--rate", "100", "--keys", "1000", "--trigger", "600", "--visit-ms", "100"]
    chosen += ["--row-ms", "5", "--use", "0.9", "--zipf", "0", "--tasks", "1", "--slow", "0"]
    (row,) = CliRunner().invoke(main, chosen).output.splitlines()[2:]
    cells = row.strip("| ").split(" | ")
    # (1,000 x 0.1 s + 60,000 x 0.005 s) / (0.9 x 600 s) = 0.74 cores; rounded up, 1
    assert cells[1:4] == ["1,000", "60.0", "1"]
    assert float(cells[-2]) == pytest.approx(400 / 540, abs=0.011)  # rows: Poisson, 0.4 %
    assert cells[-1] == cells[-2]
