"""Runs and states whose results are kept in files."""

from tests import conftest  # noqa: F401  # chooses the kernel cache, before numba is imported
from tests import processor  # noqa: F401 -- before numpy is imported
