"""Compiled kernels of `streamddcrp.particles`."""
