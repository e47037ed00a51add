"""Verification of delivery and of order, from what the stores hold."""
