"""Sinks: endpoints outside of the stores, to which the messages of a subscription are delivered at least once.

A webhook gets signed HTTP requests, Kafka gets records. A message is acknowledged in its store only when its endpoint has confirmed it.
"""
