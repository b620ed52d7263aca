"""Compiled kernels of `streamddcrp.models.seqddcrp`."""
