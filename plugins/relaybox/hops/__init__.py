"""The hop protocol: plan, copy, publish, confirm; its ledgers and its retries."""
