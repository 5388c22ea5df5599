"""What Courier tells about itself: logs, metrics, traces."""
