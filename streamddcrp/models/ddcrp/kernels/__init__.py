"""Compiled kernels of `streamddcrp.models.ddcrp`."""
