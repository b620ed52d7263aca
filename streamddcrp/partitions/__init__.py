"""Partitions: labels from links, and what samples of partitions say together.

Samples of labels, shape (S, N), come from `streamddcrp.models`; labels of different samples have
nothing to do with each other, so that what may be averaged is the `similarity_matrix`, or the loss
of an estimate (`point_estimate`).
"""

from streamddcrp.partitions.estimate import binder_loss, point_estimate, vi_loss
from streamddcrp.partitions.samples import labels_of_links, similarity_matrix

__all__ = ["binder_loss", "labels_of_links", "point_estimate", "similarity_matrix", "vi_loss"]
