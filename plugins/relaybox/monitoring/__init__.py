"""How the hops are, what is stuck, where a message is. Everything here only reads."""
