"""The benchmarks, each a command of `relaybox bench`."""
