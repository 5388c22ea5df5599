"""The command line: everything that an operator or a script asks of Courier."""

from courier.cli.app import main

__all__ = ["main"]
