"""What the console and the command line show of a running server: rates, overviews, live streams, single messages."""
