"""Many independent fits, each in a process of its own: documents, restarts, grids of options."""

import inspect
import multiprocessing
import os
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import Any

from streamddcrp.errors import ConfigError, StreamDDCRPError


def fit_many(
    specs: Iterable[Callable[[], Any]], *, workers: int | None = None, retries: int = 2,
    executor: Executor | None = None,
) -> list[Any]:  # fmt: skip
    """Call each of ``specs`` once, many at a time; return their results in order.

    Parameters
    ----------
    specs : iterable of functools.partial
        As in ``partial(sample_ddcrp, X, seed=3)``. A function with a seed must be given one: the
        result is then the same wherever and however often it is computed.
    workers : int, optional
        Processes at a time. Default: one for each core.
    retries : int, default 2
        How often the unfinished fits are begun again after a process was killed.
    executor : concurrent.futures.Executor, optional
        Runs the fits elsewhere, such as `streamddcrp_connectors.ray_tasks.RayExecutor` or Dask's
        ``Client.get_executor()``; it does the retries.

    Returns
    -------
    list
        What each call returned. All are in memory.

    Raises
    ------
    ConfigError
        A spec lacks its seed, or a process was killed more than ``retries`` times.

    Notes
    -----
    An error of a fit ends the rest, and a note on it says which fit it was. Data in a spec is
    copied to its process: hand over the name of a large file rather than its rows.

    Examples
    --------
    >>> fit_many([])
    []
    """
    jobs = list(specs)
    for i, job in enumerate(jobs):
        _check(i, job)
    if executor is not None:
        return _gathered({i: executor.submit(job) for i, job in enumerate(jobs)})
    found: dict[int, Any] = {}
    for attempt in range(retries + 1):
        left = {i: job for i, job in enumerate(jobs) if i not in found}
        if not left:
            break
        # Not forked: a copy of a process with threads can wait for ever.
        context = multiprocessing.get_context("spawn")
        n = min(workers or os.cpu_count() or 1, len(left))
        with ProcessPoolExecutor(n, mp_context=context) as pool:
            futures = {i: pool.submit(job) for i, job in left.items()}
            try:
                _gathered(futures)
            except BrokenProcessPool as error:
                if attempt == retries:
                    message = (
                        f"a process was killed {retries + 1} times, perhaps for its memory: give "
                        "fewer workers"
                    )
                    raise ConfigError(message) from error
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        found |= {i: future.result() for i, future in futures.items() if _succeeded(future)}
    return [found[i] for i in range(len(jobs))]


def _check(i: int, job: Callable[[], Any]) -> None:
    """Refuse a job that would not give the same result a second time."""
    function, given = (job.func, job) if isinstance(job, partial) else (job, partial(job))
    try:
        bound = inspect.signature(function).bind_partial(*given.args, **given.keywords)
    except (TypeError, ValueError):
        return  # the call itself says what is wrong
    bound.apply_defaults()
    if bound.arguments.get("seed", 0) is None:
        message = (
            f"fit {i}: {getattr(function, '__name__', function)} has no seed, so a second attempt "
            "would give another result; add seed=..."
        )
        raise ConfigError(message)


def _gathered(futures: dict[int, Future[Any]]) -> list[Any]:
    found = []
    for i, future in futures.items():
        try:
            found.append(future.result())
        except StreamDDCRPError as error:
            error.add_note(f"fit {i}")
            raise
    return found


def _succeeded(future: Future[Any]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None
