"""What Spark starts where it wants a stream's process: has the starter fork one, and lasts as long as that does.

Run by its path, without site packages: all that it saves is time.
"""

import os
import struct
import sys
from _socket import (  # `socket` itself takes 10 ms to import
    AF_UNIX,
    SCM_RIGHTS,
    SO_PEERCRED,
    SOCK_SEQPACKET,
    SOL_SOCKET,
    socket,
)


def main() -> None:
    variables = [name + b"=" + value for name, value in os.environb.items()]
    streams = (SOL_SOCKET, SCM_RIGHTS, struct.pack("3i", 0, 1, 2))
    connection = socket(AF_UNIX, SOCK_SEQPACKET)
    begun = b""
    try:
        connection.connect("\0" + os.environ["STREAM_STARTER"])
        folder = os.getcwdb()  # noqa: PTH109 - pathlib takes longer to import than all the rest
        if is_own(connection):
            connection.sendmsg([b"\0".join([folder, *variables])], [streams])
            begun = connection.recv(1)
    except (KeyError, OSError):
        pass  # nobody to ask, or nobody any more
    if not begun:
        os.execv(sys.executable, [sys.executable, *sys.argv[1:]])  # noqa: S606 - that is the point
    connection.recv(1)  # comes when the process has ended; when this one ends first, that notices


def is_own(connection: socket) -> bool:
    """Whether it is this user who is at the other end: names of sockets are not kept from others."""
    _, user, _ = struct.unpack("3i", connection.getsockopt(SOL_SOCKET, SO_PEERCRED, struct.calcsize("3i")))
    return bool(user == os.getuid())


if __name__ == "__main__":
    main()
