"""Runs and states whose results are kept in files."""

from tests import conftest  # noqa: F401  # chooses the kernel cache, before numba is imported
