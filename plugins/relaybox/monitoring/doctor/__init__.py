"""`relaybox doctor`: what is wrong with a store and its connection, and what corrects it. Reads only."""
