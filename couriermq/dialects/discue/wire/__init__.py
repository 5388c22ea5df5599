"""What goes over the wire, by noun."""
