"""Which files of tests start first.

The workers of `make test` take whole files in this order. The longest come first, so that the workers end at about the
same time. Files that keep the processor busy (most of Spark's) stand between files that mostly wait (PostgreSQL,
receivers, clients that hang), so that no phase of a run has only one kind.
"""

from pathlib import PurePath

LONGEST_FIRST = (
    "spark/test_clusters.py",
    "hostile/test_delivery_attacks.py",
    "spark/test_carry_kills.py",
    "end_to_end/test_memory.py",
    "spark/test_pipeline.py",
    "storage/test_histories.py",
    "storage/sharded/test_spread.py",
    "spark/test_pipeline_example.py",
    "hostile/test_fuzz_requests.py",
    "storage/postgres/test_store.py",
    "spark/test_erased_lakes.py",
    "end_to_end/test_shards.py",
    "spark/test_read_kills.py",
    "delivery/test_kill.py",
    "storage/sharded/test_moving.py",
    "spark/test_replay.py",
    "end_to_end/test_cluster_sharing.py",
    "docs/test_readme.py",
    "spark/test_source.py",
    "hostile/test_delivery_fuzz.py",
    "spark/test_consume.py",
    "dialects/test_fuzz.py",
    "spark/test_tables.py",
    "spark/test_shards.py",
    "storage/test_byte_limits.py",
    "web/test_tls.py",
    "console/test_accessibility.py",
    "console/test_journeys.py",
    "console/test_hostile.py",
)
"""Below the folder of the tests. A file that is not here starts after these: that costs time and nothing else."""


def rank(file: PurePath) -> int:
    """The place of a file, given below the folder of the tests, in the order of starting."""
    name = file.as_posix()
    return LONGEST_FIRST.index(name) if name in LONGEST_FIRST else len(LONGEST_FIRST)
