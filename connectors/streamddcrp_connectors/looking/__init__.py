"""What a file holds, found by looking at its beginning."""
