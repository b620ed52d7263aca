"""Text streams."""
