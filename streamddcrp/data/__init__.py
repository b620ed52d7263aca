"""What arrives: rows of features and their times, checked and turned into floats.

Rows that come one by one go through a `Vectorizer`, O(D) each, with one buffer of D floats as its
only memory besides the schema. Batches are converted from columns and checked as a matrix,
O(N D). Every refusal names the row, the column and the rule, and leaves everything as it was.
"""

from streamddcrp.data.batches import as_matrix, as_observations, check_matrix
from streamddcrp.data.times import as_time, as_times, check_clocked, check_times, typical_gap
from streamddcrp.data.tokens import Tokens, as_tokens, tokenize, tokenize_all
from streamddcrp.data.vectorizer import Vectorizer

__all__ = [
    "Tokens",
    "Vectorizer",
    "as_matrix",
    "as_observations",
    "as_time",
    "as_times",
    "as_tokens",
    "check_clocked",
    "check_matrix",
    "check_times",
    "tokenize",
    "tokenize_all",
    "typical_gap",
]
