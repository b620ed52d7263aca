"""A law for each column: what its own past says of its next value."""
