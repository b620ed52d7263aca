"""Seasons: what repeats in a column with a known or estimated period, apart from its level."""
