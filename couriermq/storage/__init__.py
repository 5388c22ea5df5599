"""Where messages live: one protocol, one engine a folder."""
