"""Which files of tests start first.

The workers of `make test` take whole files in this order. The longest come first, so that the workers end at about the
same time. Files that keep the processor busy (most of Spark's) stand between files that mostly wait (PostgreSQL,
receivers, clients that hang), so that no phase of a run has only one kind.
"""

from pathlib import PurePath

LONGEST_FIRST = (
    "spark/test_clusters.py",
    "hostile/test_delivery_attacks.py",
    "spark/test_pipeline.py",
    "hostile/test_slow_attacks.py",
    "end_to_end/test_memory.py",
    "spark/test_lanes.py",
    "storage/test_histories.py",
    "spark/test_carry_kills.py",
    "dialects/test_fuzz.py",
    "console/test_accessibility.py",
    "storage/sharded/test_spread.py",
    "console/test_journeys.py",
    "end_to_end/test_shards.py",
    "spark/test_erased_lakes.py",
    "hostile/test_delivery_fuzz.py",
    "spark/test_pipeline_example.py",
    "storage/postgres/test_store.py",
    "spark/test_read_kills.py",
    "delivery/test_kill.py",
    "spark/test_replay.py",
    "dialects/test_hostile_values.py",
    "spark/test_interpreter.py",
    "lake/test_stats.py",
    "docs/test_readme.py",
    "end_to_end/test_cluster_sharing.py",
    "spark/test_source.py",
    "spark/test_writer.py",
    "cli/test_export.py",
    "spark/test_incarnations.py",
    "storage/sharded/test_moving.py",
    "spark/test_tables.py",
    "console/test_scale.py",
    "hostile/test_fuzz_requests.py",
    "web/test_tls.py",
    "spark/test_consume.py",
    "storage/test_byte_limits.py",
    "hostile/test_fuzz_arrow.py",
    "end_to_end/test_disk.py",
    "dialects/cloudflare/test_contention.py",
    "end_to_end/test_server.py",
    "end_to_end/test_histories.py",
    "console/test_hostile.py",
    "console/test_large_bodies.py",
    "console/test_tail_memory.py",
    "console/test_looking_back.py",
)
"""Below the folder of the tests. A file that is not here starts after these: that costs time and nothing else."""


def rank(file: PurePath) -> int:
    """The place of a file, given below the folder of the tests, in the order of starting."""
    name = file.as_posix()
    return LONGEST_FIRST.index(name) if name in LONGEST_FIRST else len(LONGEST_FIRST)
