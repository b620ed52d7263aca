"""Compiled kernels of `streamddcrp.models.trees`."""
