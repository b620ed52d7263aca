"""Compiled kernels of `streamddcrp.models.text`; their equations: docs/math/texts.md."""
