"""Reads of many stores side by side, each in a thread of its own, that end at a deadline whatever a store does."""
