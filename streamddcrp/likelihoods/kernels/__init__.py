"""Compiled kernels of `streamddcrp.likelihoods`."""
