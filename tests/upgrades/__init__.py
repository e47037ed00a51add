"""Upgrades of stores that are at work, and of stores that earlier versions made."""
