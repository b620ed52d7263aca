"""Compiled kernels of `streamddcrp.models.temporal`."""
