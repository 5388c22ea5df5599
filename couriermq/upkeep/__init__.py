"""What must happen without anybody asking."""
