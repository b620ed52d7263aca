"""Compiled kernels of `streamddcrp.models.graph`."""
