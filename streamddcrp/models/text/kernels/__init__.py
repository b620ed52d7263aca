"""Compiled kernels of `streamddcrp.models.text`; their equations are in math/text_streams.md."""
