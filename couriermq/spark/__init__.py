"""The connector and the pipeline; loads on an executor that has no server."""
