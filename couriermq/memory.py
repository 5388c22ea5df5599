"""How the process gives memory back to the system."""

import ctypes
import os

LARGE_BYTES = 256 * 1024
ARENA_COUNT = 2
_MMAP_THRESHOLD, _ARENA_MAX = -3, -8
"""The numbers that glibc's malloc.h gives to these parameters."""


def configure_allocators() -> None:
    """Return large buffers when they are freed, and use one allocator for Python, libpq and Arrow.

    glibc keeps freed buffers of up to 32 MiB once it has seen some of that size, in a heap for each thread: a few
    large messages left 300 MiB behind. Arrow's own allocator leaves 40 to 80 MiB after one segment. Arrow reads its
    variable when it is loaded, which happens when the first segment is written or read.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # other C libraries have their own ways
        mallopt(_MMAP_THRESHOLD, LARGE_BYTES)
        mallopt(_ARENA_MAX, ARENA_COUNT)
