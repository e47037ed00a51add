"""Subscriptions, replays and dead letters, for those who run them. Consumers themselves use relaybox.consumer."""
