"""As much of S3 as pyarrow asks of it, in memory: objects by key, uploads in parts, copies, lists."""

import contextlib
import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase, BytesIO
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET = "lake"


class ObjectStore(ThreadingHTTPServer):
    """One bucket; `objects` is what is in it."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, bytes] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}

    def url(self, prefix: str) -> str:
        """What `archive` would be set to."""
        return (
            f"s3://key:secret@{BUCKET}/{prefix}"
            f"?endpoint_override=127.0.0.1%3A{self.server_port}&scheme=http&region=eu-west-1"
        )


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ObjectStore

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        pass

    # -- what is asked for ------------------------------------------------------------------------------------

    @property
    def _key(self) -> str:
        return unquote(urlsplit(self.path).path).removeprefix(f"/{BUCKET}").lstrip("/")

    @property
    def _query(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(urlsplit(self.path).query, keep_blank_values=True).items()}

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding") == "chunked":
            raw = _unchunk(self.rfile)
        else:
            raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        return _unchunk(BytesIO(raw)) if "aws-chunked" in self.headers.get("content-encoding", "") else raw

    def _answer(self, status: int, body: bytes = b"", /, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content_Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _xml(self, text: str) -> None:
        self._answer(200, f'<?xml version="1.0"?>{text}'.encode(), Content_Type="application/xml")

    # -- the verbs --------------------------------------------------------------------------------------------

    def do_HEAD(self) -> None:
        if not self._key:
            self._answer(200)
        elif self._key in self.server.objects:
            self._answer(200, Last_Modified="Mon, 01 Jan 2024 00:00:00 GMT", **_length(self.server.objects[self._key]))
        else:
            self._answer(404)

    def do_GET(self) -> None:
        if not self._key:
            self._list()
        elif (found := self.server.objects.get(self._key)) is None:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        elif wanted := self.headers.get("range"):
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            piece = found[int(first) : int(last) + 1]
            end = int(first) + len(piece) - 1
            self._answer(206, piece, Content_Range=f"bytes {first}-{end}/{len(found)}")
        else:
            self._answer(200, found)

    def do_PUT(self) -> None:
        body, query = self._body(), self._query
        if "uploadId" in query:
            self.server.uploads[query["uploadId"]][int(query["partNumber"])] = body
        elif source := self.headers.get("x-amz-copy-source"):
            self.server.objects[self._key] = self.server.objects[unquote(source).lstrip("/").removeprefix(f"{BUCKET}/")]
            self._xml(f"<CopyObjectResult><ETag>{_tag(body)}</ETag></CopyObjectResult>")
            return
        else:
            self.server.objects[self._key] = body
        self._answer(200, ETag=_tag(body))

    def do_POST(self) -> None:
        body, query = self._body(), self._query
        if "uploads" in query:
            name = f"upload-{len(self.server.uploads)}"
            self.server.uploads[name] = {}
            where = f"<Bucket>{BUCKET}</Bucket><Key>{escape(self._key)}</Key><UploadId>{name}</UploadId>"
            self._xml(f"<InitiateMultipartUploadResult>{where}</InitiateMultipartUploadResult>")
        elif "delete" in query:
            for part in body.decode().split("<Key>")[1:]:
                self.server.objects.pop(part.partition("<")[0], None)
            self._xml("<DeleteResult></DeleteResult>")
        else:
            parts = self.server.uploads.pop(query["uploadId"])
            self.server.objects[self._key] = b"".join(parts[number] for number in sorted(parts))
            self._xml(f"<CompleteMultipartUploadResult><Key>{escape(self._key)}</Key></CompleteMultipartUploadResult>")

    def do_DELETE(self) -> None:
        self.server.objects.pop(self._key, None)
        self._answer(204)

    def _list(self) -> None:
        prefix, delimiter = self._query.get("prefix", ""), self._query.get("delimiter", "")
        keys = sorted(key for key in self.server.objects if key.startswith(prefix))
        if delimiter:
            keys = [key for key in keys if delimiter not in key[len(prefix) :]]
        modified = "<LastModified>2024-01-01T00:00:00.000Z</LastModified>"
        listed = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(self.server.objects[key])}</Size>{modified}</Contents>"
            for key in keys
        )
        count = f"<KeyCount>{len(keys)}</KeyCount><IsTruncated>false</IsTruncated>"
        self._xml(f"<ListBucketResult><Name>{BUCKET}</Name>{count}{listed}</ListBucketResult>")


def _unchunk(stream: BufferedIOBase) -> bytes:
    """What is in chunks, each behind its length; HTTP and S3 write them alike, and S3's own inside those of HTTP."""
    whole = b""
    while count := int(stream.readline().partition(b";")[0], 16):
        whole += stream.read(count)
        stream.readline()
    while stream.readline().strip():
        pass  # a checksum follows
    return whole


def _length(content: bytes) -> dict[str, str]:
    return {"Content_Length": str(len(content)), "ETag": _tag(content)}


def _tag(content: bytes) -> str:
    return f'"{hashlib.md5(content).hexdigest()}"'


@contextlib.contextmanager
def object_store() -> Iterator[ObjectStore]:
    store = ObjectStore()
    thread = threading.Thread(target=store.serve_forever, daemon=True)
    thread.start()
    try:
        yield store
    finally:
        store.shutdown()
        thread.join()
        store.server_close()
