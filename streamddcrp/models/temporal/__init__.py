"""Temporal Dirichlet-process mixture by collapsed variational Bayes, an epoch at a time.

Components of a mixture drift, appear and die across epochs (Ahmed and Xing, 2008). Their weights
are integrated out: an item of epoch t joins component k with weight m'_kt + m_kt + alpha / K, where
m'_kt is the count of the epochs before, each decayed by its distance. Assignments are independent
under q; expectations of log counts are taken by moments that keep the probability of zero apart.
Births are decided by marginal predictives as items arrive; merges, deletions and splits by the
objective of a window of epochs that may still change.

An epoch costs O(N K (D + lag)) for each sweep of the window; memory is that of the window, the
moments of the epochs that count as past, and one state for each live component.
"""
