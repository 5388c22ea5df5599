"""The web console: its files, and how a browser signs in."""
