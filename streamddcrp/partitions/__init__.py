"""Partitions: labels from links, similarities and estimates from samples of partitions.

Samples of labels, shape (S, N), come from `streamddcrp.models`; labels of different samples have
nothing to do with each other, so that what may be averaged is the `similarity_matrix`, or the loss
of an estimate (`point_estimate`).
"""

from streamddcrp.partitions.samples import labels_of_links, named, point_estimate, similarity_matrix

__all__ = ["labels_of_links", "named", "point_estimate", "similarity_matrix"]
