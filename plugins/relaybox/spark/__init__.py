"""Spark copies the slices and compares them: tasks that ask the stores themselves, nothing shuffled."""
