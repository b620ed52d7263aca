"""Comparisons of the papers' models: ``python -m research.benchmarks NAME``."""
