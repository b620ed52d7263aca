"""What Gibbs samplers have in common."""

from collections.abc import Callable, Iterator
from typing import Any

from tqdm import tqdm

from streamddcrp.likelihoods import Likelihood, make_likelihood
from streamddcrp.typing import FloatArray
from streamddcrp.validation import whole


def checked_sweeps(n_sweeps: Any, burn_in: Any, thin: Any) -> tuple[int, int, int]:
    """Return the numbers of sweeps, checked; ConfigError where one is out of range."""
    n_sweeps, burn_in = whole("n_sweeps", n_sweeps, 1), whole("burn_in", burn_in, 0)
    return n_sweeps, burn_in, whole("thin", thin, 1, n_sweeps)


def fitted(likelihood: Any, rows: FloatArray) -> Likelihood:
    """Return the likelihood, what it lacks taken from the rows; or refuse the rows."""
    family = make_likelihood(likelihood)
    family.check_rows(rows)
    return family.scaled(rows)


def kept_sweeps(
    sweep: Callable[[], None], n_draws: int, burn_in: int, thin: int, *, progress: bool
) -> Iterator[int]:
    """Sweep, and yield the number of each draw that is kept once it stands."""
    total = burn_in + n_draws * thin
    for i in tqdm(range(total), unit=" sweeps", disable=not progress):
        sweep()
        s, rest = divmod(i - burn_in, thin)
        if i >= burn_in and rest == thin - 1:
            yield s
