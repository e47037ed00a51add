"""What reads a store (hops that leave it, subscriptions, sinks) against relaybox.yaml: what is awaited, changed, reduced or orphaned."""
