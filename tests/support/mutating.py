"""Recorded bytes, damaged at random: what a byte-level fuzzer sends."""

import random
from collections.abc import Sequence

LENGTHS = (b"-1", b"0", b"1", b"7fffffffffffffff", b"ffffffffffffffff", b"99999999999999999999", b"0x10", b"1e9", b"+1")
TOKENS = (
    b"\r\n", b"\r\n\r\n", b"\n", b"\r", b"\x00", b"\xff", b" ", b"\t", b":", b";", b",", b"%", b"%00", b"%0a", b"%ff",
    b"/", b"/../", b"//", b"?", b"#", b"*", b'"', b"{", b"[" * 500, b"]", b"\\u0000", b"\\ud800", b"NaN", b"1e400",
    b"HTTP/1.0", b"HTTP/1.1", b"HTTP/2.0", b"CONNECT", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01",
    b"transfer-encoding: chunked\r\n", b"content-length: 5\r\n", b"expect: 100-continue\r\n", b"upgrade: h2c\r\n",
    b"connection: upgrade\r\n", b"connection: close\r\n", b"content-encoding: gzip\r\n", b"0\r\n", b"0\r\na: b\r\n\r\n",
    *LENGTHS,
)  # fmt: skip


def mutate(recorded: Sequence[bytes], dice: random.Random) -> bytes:
    """One of the recordings, or parts of several, with a few of its bytes changed, lost, doubled or put elsewhere."""
    data = bytearray(dice.choice(recorded))
    for _ in range(dice.choice((0, 1, 1, 1, 2, 3, 8))):
        _damage(data, recorded, dice)
    return bytes(data)


def _damage(data: bytearray, recorded: Sequence[bytes], dice: random.Random) -> None:
    start = dice.randrange(len(data) + 1)
    stop = min(len(data), start + dice.choice((1, 1, 2, 4, 16, 64)))
    match dice.randrange(7):
        case 0:
            if data:
                data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        case 1:
            data[start:stop] = b""
        case 2:
            data[start:start] = data[start:stop] * dice.choice((1, 2, 100))
        case 3:
            data[start:start] = dice.choice(TOKENS)
        case 4:
            data[start:stop] = dice.choice(TOKENS)
        case 5:
            other = dice.choice(recorded)
            data[start:] = other[dice.randrange(len(other) + 1) :]
        case _:
            data[start:stop] = dice.randbytes(stop - start)
