"""The native wire: what requests may hold, what answers hold, and how one becomes the other's words."""
