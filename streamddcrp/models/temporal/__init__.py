"""Temporal Dirichlet-process mixture by collapsed variational Bayes, an epoch at a time.

Components drift, appear and die across epochs (Ahmed and Xing, 2008). Their weights are integrated
out: an item of epoch t joins component k with weight m'_kt + m_kt + alpha / K, where m'_kt counts
rows of earlier epochs, decayed by distance. Marginal predictives decide births as items arrive; the
objective of a window of epochs decides merges, deletions and splits (docs/math/temporal.md).

Each sweep of the window costs O(N K (D + lag)) per epoch. Memory is that of the window, the moments
of the epochs that count as past, and a state for each live component.
"""
