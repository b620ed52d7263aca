"""Input rows: features and times, checked and turned into floats.

Single rows go through a `Vectorizer` in O(D) each. Batches are converted from columns and checked
as a matrix in O(N D). Every refusal names the row, the column and the rule, and changes nothing.
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
