"""Stores: how they are opened and made, what they register, and rows that flow in and out of them as bytes.

From the top down, each package knows only those below it (pyproject.toml): init makes a store, opening opens one. schema, readers and
binary_copy work in a session each; sessions opens it. parallel_reads needs none of them.
"""
