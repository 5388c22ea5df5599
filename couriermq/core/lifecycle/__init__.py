"""What can happen to a message, one module a verb.

A decision is a generator: it yields what it needs to know (`needs`), receives that as rows (`rows`), may ask again, and
returns its outcome. What it decides goes into a `Unit`: changes of rows, events, counters and signals. An engine
answers the needs and writes the unit; facts always include what the unit has changed so far.

No module here knows a clock, a database or an engine.
"""
