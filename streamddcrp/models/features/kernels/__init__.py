"""Compiled kernels of `streamddcrp.models.features`."""
