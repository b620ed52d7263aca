"""Compiled kernels of `streamddcrp.data`."""
