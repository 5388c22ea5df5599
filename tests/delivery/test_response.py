"""Responses of receivers, in every shape and cut anywhere: what is read of them, and how much at most."""

import pytest

from couriermq.delivery.response import (
    BODY_BYTES,
    HEAD_BYTES,
    HEADER_COUNT,
    INTERIM_COUNT,
    TAIL_BYTES,
    RequestFailed,
    Response,
    ResponseReader,
)

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
MIB = 1024 * 1024

WHOLE = [
    (OK + b"Content-Length: 2\r\n\r\nok", b"ok"),
    (OK + b"Content-Length: 0\r\n\r\n", b""),
    (CHUNKED + b"2\r\nok\r\n3\r\na\nb\r\n0\r\n\r\n", b"oka\nb"),
    (CHUNKED + b"02;name=value\r\nok\r\n000;x\r\nTrailer: 1\r\n\r\n", b"ok"),
    (
        CHUNKED + b"a\r\n0123456789\r\n10\r\n0\r\n1\r\n2\r\n3\r\n4\r\n5\r\n0\r\n\r\n",
        b"01234567890\r\n1\r\n2\r\n3\r\n4\r\n5",
    ),
    (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nRetry-After: 9\r\n\r\n"
        + OK
        + b"Content-Length: 1\r\n\r\nx",
        b"x",
    ),
]


def read(*pieces: bytes) -> tuple[Response | None, ResponseReader]:
    reader = ResponseReader()
    for piece in pieces:
        response = reader.feed(piece)
        if response is not None:
            return response, reader
    return None, reader


def endless(first: bytes, piece: bytes, *, count: int = 100 * MIB) -> tuple[Response | None, int]:
    """What comes of 100 MiB, and how much of that was taken."""
    reader = ResponseReader()
    response = reader.feed(first)
    taken = 0
    while response is None and taken < count:
        response = reader.feed(piece)
        taken += len(piece)
    return response, taken


@pytest.mark.parametrize(("data", "body"), WHOLE)
def test_a_response_is_the_same_wherever_it_is_cut(data: bytes, body: bytes) -> None:
    wanted = Response(200, None, body)
    assert read(data)[0] == wanted
    for place in range(1, len(data)):
        assert read(data[:place], data[place:])[0] == wanted
    assert read(*(data[place : place + 1] for place in range(len(data))))[0] == wanted


@pytest.mark.parametrize(("data", "body"), WHOLE)
def test_a_connection_is_reusable_after_a_whole_response_and_nothing_more(data: bytes, body: bytes) -> None:
    assert read(data)[1].connection_reusable
    for excess in (b"x", b"HTTP/1.1 500 No\r\nContent-Length: 1\r\n\r\nx", b"HTTP/1.1 101 Up\r\nUpgrade: x\r\n\r\n"):
        response, reader = read(data + excess)
        assert response == Response(200, None, body)
        assert not reader.connection_reusable


def test_a_reader_reads_one_response_after_another() -> None:
    reader = ResponseReader()
    for data, body in WHOLE * 2:
        assert reader.feed(data) == Response(200, None, body)
        reader.reset()


def test_trailers_are_not_headers() -> None:
    response, _ = read(CHUNKED + b"0\r\nRetry-After: 9\r\nContent-Length: 5\r\n\r\n")
    assert response == Response(200, None, b"")


@pytest.mark.parametrize(
    "tail",
    [
        b"0\r\n",
        b"0\r\nX",
        b"0\r\nX: " + b"y" * 1_000,
        b"0\r\nX: 1\r\n",
        b"0;ext\r\n",
        b"0\r\n\x00\x01",
        b"0\r\n" + b"\n" * 9,
    ],
)
def test_after_the_last_chunk_a_response_is_whole_whatever_follows(tail: bytes) -> None:
    response, reader = read(CHUNKED + b"2\r\nok\r\n" + tail)
    assert response == Response(200, None, b"ok")
    assert not reader.connection_reusable


@pytest.mark.parametrize("tail", [b"2\r\n", b"2\r\nok", b"2\r\nok\r\n", b"", b"2;x", b"10\r\n0\r\n"])
def test_before_the_last_chunk_it_is_not(tail: bytes) -> None:
    response, reader = read(CHUNKED + tail)
    assert response is None
    with pytest.raises(RequestFailed, match="in the middle"):
        reader.end()


@pytest.mark.parametrize(
    ("first", "piece"),
    [
        (CHUNKED + b"1;", b"x" * MIB),
        (CHUNKED + b"1;", b"x"),
        (CHUNKED, b"1;" + b"y" * 1_000 + b"\r\nx\r\n"),
        (CHUNKED, b"1\r\nx\r\n" * 10_000),
        (CHUNKED, b"10\r\n" + b"\n" * 16 + b"\r\n"),
        (CHUNKED + b"2\r\nok\r\n0\r\n", b"a:b\r\n" * 100_000),
        (CHUNKED + b"2\r\nok\r\n0\r\nX: ", b"y" * MIB),
        (OK + b"Content-Length: 1000000000\r\n\r\n", b"x" * MIB),
        (OK + b"\r\n", b"x" * MIB),
    ],
)
def test_a_tail_without_end_is_cut_off_and_the_status_counts(first: bytes, piece: bytes) -> None:
    response, taken = endless(first, piece)
    assert response is not None
    assert response.status == 200
    assert len(response.body) <= BODY_BYTES + 1
    assert taken <= TAIL_BYTES + len(piece)


@pytest.mark.parametrize(
    ("first", "piece", "why"),
    [
        (OK + b"X: ", b"y" * MIB, "head of the answer"),
        (OK + b"X: ", b"y", "head of the answer"),
        (OK, b"X: " + b"y" * 1_000 + b"\r\n", "head of the answer"),
        (OK, b"X: y\r\n" * 100_000, f"more than {HEADER_COUNT} headers"),
        (b"HTTP/1.1 200 ", b"O" * 1_000, "head of the answer"),
        (b"", b"\r\n" * 1_000, "head of the answer"),
        (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n", f"more than {INTERIM_COUNT} interim"),
        (b"", b"HTTP/1.1 103 Early\r\nLink: " + b"x" * 8_000 + b"\r\n\r\n", "head of the answer"),
    ],
)
def test_a_head_without_end_is_no_response(first: bytes, piece: bytes, why: str) -> None:
    with pytest.raises(RequestFailed, match=why):
        endless(first, piece, count=HEAD_BYTES + len(piece))
