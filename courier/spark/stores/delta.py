"""Tables as Delta, written by Spark and committed through delta-rs: no jar is needed.

A batch is one commit of a table, which also notes the batch, so that the same batch is never committed twice.
"""
