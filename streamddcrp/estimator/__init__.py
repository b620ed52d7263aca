"""Shared by estimators: rows in, predictions out, checkpoints, models by key.

A batch is one compiled call whatever its length; a row handed over alone costs that call's overhead
(about 20 microseconds) on top of the model's own cost.
"""
