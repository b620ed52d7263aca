"""Worker processes that use one thread each."""

from __future__ import annotations

import multiprocessing as mp
import os
from collections.abc import Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from typing import Any

from tqdm import tqdm

from benchmarks.streams import five_gaussians
from streamddcrp import SeqDDCRP

# One thread a worker; and river's KMeans draws its centres in the order of a set of names.
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
}


def compile_engine() -> None:
    """Have the kernels ready, so that no run is timed with compiling or loading them."""
    SeqDDCRP().step_many(five_gaussians(100, shuffled=True)[0])


def workers(processes: int = 2) -> Executor:
    """Start a pool of processes that are not forked: a fork would copy running threads."""
    compile_engine()
    os.environ.update(ENVIRONMENT)  # read by the workers as they start
    return ProcessPoolExecutor(processes, mp.get_context("spawn"), initializer=compile_engine)


def in_order(jobs: Sequence[Future[Any]], what: str) -> list[Any]:
    """Wait for all, with a bar while they come; results in the order of the jobs."""
    for job in tqdm(as_completed(jobs), total=len(jobs), desc=what, leave=False):
        job.result()  # a failure is better known at once
    return [job.result() for job in jobs]
