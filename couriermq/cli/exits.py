"""How a command ends: the exit codes that scripts rely on, and the failure that carries one."""

from enum import IntEnum


class Exit(IntEnum):
    """Documented in `courier --help`; never renumber."""

    OK = 0
    FAILED = 1
    """The command ran and something is wrong or was refused."""
    USAGE = 2
    NOT_FOUND = 3
    DENIED = 4
    """No credential, an unknown one, or one without the right."""
    UNAVAILABLE = 5
    """The server cannot be reached, or cannot do this now."""
    DISK_FAILED = 74
    """A server has ended because the disk did not take a write (EX_IOERR of sysexits.h)."""
    INTERRUPTED = 130
    PIPE_CLOSED = 141


class Failure(Exception):
    """The end of a command: one sentence for people and the code for scripts."""

    def __init__(self, sentence: str, code: Exit = Exit.FAILED) -> None:
        super().__init__(sentence)
        self.code = code


def usage(sentence: str) -> Failure:
    """What the caller typed does not make sense together."""
    return Failure(sentence, Exit.USAGE)
