"""How fast Courier is, always as a ratio against a bare server on the same machine in the same run.

`python -m benchmarks` prints figures and verdicts and appends the run to `history/`. The scenarios are in `sending`,
`dialects`, `backlog` and others; `load` drives wrk, `processes` starts servers, `runs` keeps and reads the history,
`verdicts` judges each row by its bar and its best run, `report` shows the outcome.
"""
