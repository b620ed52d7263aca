"""One folder per model. Models never import each other."""
