"""The journal beyond the store: how its events are written for those who read them in bulk."""
