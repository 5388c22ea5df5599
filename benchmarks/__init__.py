"""How fast Courier is, always as a ratio against a bare server on the same machine in the same run.

`python -m benchmarks` prints a table and writes `benchmarks/results/<date>.json`. The scenarios are in `sending`,
`dialects`, `backlog` and `journal`; `load` drives wrk, `processes` starts servers, `report` shows the outcome.
"""
