"""Component tables: parameters with their statistics, under identities that are never reused.

A component is the parameter of one likelihood, held as the expected sufficient statistics of the
customers that share it. A `ComponentTable` is a struct of arrays with one row a live component, in
order of birth; a method's kernels open, close and merge rows in place, in O(K P).
"""

from streamddcrp.components.table import ComponentTable, empty_table, resized

__all__ = ["ComponentTable", "empty_table", "resized"]
