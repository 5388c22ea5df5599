"""The command line: everything that an operator or a script asks of Courier."""

from couriermq.cli.app import main

__all__ = ["main"]
