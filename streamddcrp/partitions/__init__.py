"""Partitions: labels from links, similarities and estimates from samples of partitions.

Samples of labels, shape (S, N), come from `streamddcrp.models`. Labels of different samples are
unrelated, so only the `similarity_matrix` or the loss of an estimate (`point_estimate`) may be
averaged.
"""

from streamddcrp.partitions.samples import labels_of_links, named, point_estimate, similarity_matrix

__all__ = ["labels_of_links", "named", "point_estimate", "similarity_matrix"]
