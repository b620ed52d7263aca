"""The fits of `fit_many` as tasks of Ray, on one machine or many."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from streamddcrp.errors import MissingExtraError


class RayExecutor(Executor):
    """Run calls as tasks of Ray, for ``executor=`` of `streamddcrp_connectors.fit_many.fit_many`.

    It uses the cluster that ``ray.init`` has connected to; without one, Ray starts on this machine
    at the first call. It neither starts nor stops Ray by itself.

    Parameters
    ----------
    **options
        Of the tasks, as for ``ray.remote``: ``num_cpus``, ``memory``, ``resources``,
        ``max_retries``. By default Ray starts a task whose process was killed three times again.

    Raises
    ------
    MissingExtraError
        Ray is not installed.

    Notes
    -----
    The package must be installed on every machine of the cluster.

    Examples
    --------
    ::

        ray.init()
        fits = [partial(sample_ddcrp, X, seed=seed) for seed in range(8)]
        chains = fit_many(fits, executor=RayExecutor(num_cpus=2))
    """

    def __init__(self, **options: Any) -> None:
        try:
            import ray  # noqa: PLC0415 -- an extra
        except ModuleNotFoundError as error:
            message = "RayExecutor needs the package ray: pip install 'streamddcrp[ray]'"
            raise MissingExtraError(message) from error
        self._task = ray.remote(_call)
        if options:
            self._task = self._task.options(**options)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Start a call; an error of it comes back as one of its own class."""
        found: Future[Any] = self._task.remote(fn, args, kwargs).future()
        return found


def _call(fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    return fn(*args, **kwargs)
