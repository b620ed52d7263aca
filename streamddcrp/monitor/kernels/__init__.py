"""Compiled kernels of `streamddcrp.monitor`."""
