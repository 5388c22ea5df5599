"""What the native dialect allows beyond the core's own limits: how much one answer may carry."""

LIST_COUNT = 1_000
"""The most things of the control plane, and the most messages, in one page."""
BROWSE_COUNT = 100
"""Messages in a page when the caller does not say."""

STATS_COUNT = 10_000
"""The most steps that a past is cut into."""

EVENT_COUNT = 1_000
"""Offsets that one answer covers when the caller does not say."""
JSON_EVENT_COUNT = 10_000
ARROW_EVENT_COUNT = 1_000_000
JSON_SCAN_COUNT = 100_000
"""Offsets that one call looks through for events to write as JSON."""
ARROW_SCAN_COUNT = 1_000_000
"""The same for Arrow, and for the partitions of a plan."""
PARTITION_COUNT = 1_000
"""The most partitions in one answer."""
BATCH_EVENT_COUNT = 4_000
"""Events in one Arrow record batch: encoding them holds the event loop for a few milliseconds only."""

NUMBER = 2**63 - 1
"""The largest seq, offset or instant that a store can keep."""
ANNOTATION_BYTES = 64 * 1024
"""How much may be kept with a queue, an exchange or a credential."""
NAME_CHARS = 128
"""The longest name of a credential."""
