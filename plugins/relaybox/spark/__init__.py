"""Spark copies the slices: one task per slice, nothing shuffled."""
