"""Clusters shared by groups through auxiliary items: Dirichlet processes on a decomposable graph.

Model: N_0 auxiliary items without data form, with the items of any one group, a Chinese restaurant
process of concentration alpha; the auxiliary items separate the groups. So an item of group c joins
cluster j with weight m_j0 + m_jc, its auxiliary items and its items of the group, and opens one
with weight alpha. Each group's distribution is a Dirichlet process, and those of two groups have
correlation N_0 / (alpha + N_0) on every set. With two layers a node between root and groups has N_1
auxiliary items of its own, which form a Chinese restaurant process with those of the root.

A particle holds the seating of the auxiliary items, drawn blind, and counts of items a cluster and
group. Arrivals are followed as in `graph_crp`; after each, some auxiliary items are drawn anew by
their full conditionals. An arrival costs O(P K) and O(P K C) a move for C groups; memory grows with
clusters times groups, not with the number of rows.

Reference: Caron and Doucet, "Bayesian nonparametric models on decomposable graphs", NIPS 2009,
section 4.1.
"""
