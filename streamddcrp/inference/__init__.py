"""Inference methods: one package a method, none of which a likelihood, decay or table knows."""
