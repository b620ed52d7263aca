"""Compiled sums and draws of griddy Gibbs; layouts as in `kernels.link`."""

import math

import numpy as np

from streamddcrp.compilation import kernel
from streamddcrp.models.ddcrp.kernels.link import attach
from streamddcrp.models.ddcrp.kernels.sweep import place


@kernel
def partition_term(shared, start, customer, weight, log_scale, labels):
    """Sum over the customers that do not open their table of log sum_{j in the table} f_ij.

    ``labels`` (N,) are smallest customers. -inf where some customer has nobody to link to.
    """
    total = 0.0
    for i in range(len(labels)):
        if labels[i] == i:
            continue
        first = 0 if shared else start[i]
        count = min(i, len(weight)) if shared else start[i + 1] - first
        mass = 0.0
        for q in range(first, first + count):
            j = i - 1 - q if shared else customer[q]
            if labels[j] == labels[i]:
                mass += weight[q]
        if mass == 0.0:
            return -np.inf
        total += math.log(mass) + (log_scale[0] if shared else log_scale[i])
    return total


@kernel
def link_term(shared, start, customer, weight, log_scale, links):
    """Sum over the customers that are not self-linked of log f_ij; -inf where one is impossible."""
    total = 0.0
    for i in range(len(links)):
        j = links[i]
        if j == i:
            continue
        if shared:
            if i - 1 - j >= len(weight):
                return -np.inf
            total += math.log(weight[i - 1 - j]) + log_scale[0]
        else:
            q = place(i, j, start, customer)
            if start[i] == start[i + 1] or customer[q] != j:
                return -np.inf
            total += math.log(weight[q]) + log_scale[i]
    return total


@kernel
def redraw_links(rng, shared, start, customer, weight, slot, links, kids):
    """Draw links given tables: in proportion to the weights within the table."""
    kids[:] = -1
    for i in range(len(links)):
        first = 0 if shared else start[i]
        count = min(i, len(weight)) if shared else start[i + 1] - first
        mass = 0.0
        for q in range(first, first + count):
            j = i - 1 - q if shared else customer[q]
            if slot[j] == slot[i]:
                mass += weight[q]
        chosen = i  # the opener of the table: nobody there before it
        rest = rng.random() * mass
        for q in range(first, first + count):
            j = i - 1 - q if shared else customer[q]
            if slot[j] == slot[i]:
                chosen = j
                rest -= weight[q]
                if rest < 0.0:
                    break
        attach(i, chosen, links, kids)
