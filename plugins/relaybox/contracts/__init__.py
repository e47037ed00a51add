"""What producers and consumers agree on: the schemas of topics, how they may change, and the AsyncAPI document of a relaybox.yaml."""
