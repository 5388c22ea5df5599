"""Courier: one durable queue, spoken to in the languages of several vendors."""

__version__ = "0.1.0"
