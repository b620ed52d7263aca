"""Compiled kernels of `streamddcrp.models.text`."""
