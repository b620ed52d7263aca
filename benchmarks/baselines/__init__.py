"""Baselines that the benchmarks compare with; not part of the package."""
