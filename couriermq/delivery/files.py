"""How many connections there may be: each is an open file of the process."""

import resource

MOST_FILES = 40_000


def open_files() -> int:
    """How many files this process may have open, or as many as deliveries count on at most."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_FILES if soft == resource.RLIM_INFINITY else min(soft, MOST_FILES)
