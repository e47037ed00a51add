"""Retention: which segments a store keeps, who needs them, and how the others are dropped, detached or retired."""
