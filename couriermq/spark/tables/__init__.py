"""What the pipeline's tables hold: functions from frame to frame."""
