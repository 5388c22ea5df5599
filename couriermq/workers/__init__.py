"""What runs beside a Worker: the bridge module, in JavaScript."""

from pathlib import Path

BRIDGE = Path(__file__).with_name("bridge.mjs")
