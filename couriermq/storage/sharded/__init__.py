"""Several databases as one store: each queue lives in one of them, and every node knows in which."""
