"""How the rows of a component of the temporal mixture are distributed, and how that drifts."""
