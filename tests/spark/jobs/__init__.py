"""Jobs that tests run in processes of their own, on whatever Spark they are given."""
