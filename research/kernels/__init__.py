"""Compiled code of the experiments."""
