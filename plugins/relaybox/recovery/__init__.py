"""Stores that were lost, restored or succeeded: the hops and consumers of them go on."""
