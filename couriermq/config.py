"""Settings: read once from flags, `COURIER_*` variables and `courier.toml`, in that order, then passed down.

Every setting has one dotted key, such as `port` or `dialects.cloudflare.json_body`. The file spells it as a table,
a variable as `COURIER_DIALECTS_CLOUDFLARE_JSON_BODY`. A key that nobody knows is an error that names it.
"""

import ipaddress
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import inspect

from couriermq.core.model import DAY, MINUTE, SECOND

S = TypeVar("S", bound=msgspec.Struct)

MIB = 1024 * 1024
DEFAULT_FILE = Path("courier.toml")
SECRETS = ("store", "root_token")
"""Settings that may stand in a file of their own."""
SECRET_FILE_BYTES = 64 * 1024
TOKEN_CHARS = 24
LOCAL_TOKEN_CHARS = 8
"""How long a root token must be, and how long it must be where only this machine can try it."""
BLOCKED_PORTS = (
    22, 23, 25, 53, 110, 111, 135, 139, 143, 389, 445, 465, 587, 636, 993, 995, 1433, 1434, 1521, 2049, 2181, 2375,
    2376, 2379, 2380, 3306, 3389, 5432, 5433, 5672, 5984, 6379, 6380, 7000, 7001, 9042, 9092, 9160, 9200, 9300, 11211,
    26257, 27017, 27018, 27019, 28015,
)  # fmt: skip
"""Remote shells, mail, directories, file servers, and the usual ports of databases and brokers."""

_CONSOLE_PREFIX = re.compile(r"(?:/[A-Za-z0-9._~-]+){1,16}")
_UMASK = re.compile(r"0?0[0-7]{2}")

Port = Annotated[int, msgspec.Meta(ge=0, le=65_535)]
Bytes = Annotated[int, msgspec.Meta(ge=0)]
Milliseconds = Annotated[int, msgspec.Meta(ge=1)]
Count = Annotated[int, msgspec.Meta(ge=1)]
Rate = Annotated[float, msgspec.Meta(gt=0)]


class CloudflareSettings(msgspec.Struct, frozen=True, kw_only=True):
    json_body: Literal["plain", "base64"] = "plain"
    """How a pull shows a message that was pushed as JSON."""


class AnypointSettings(msgspec.Struct, frozen=True, kw_only=True):
    mode: Literal["strict", "lenient"] = "lenient"
    """Whose side to take where the vendor's documents disagree with its clients."""
    lock_ttl_unit: Literal["auto", "seconds", "milliseconds"] = "auto"
    """What a PATCH of a lock means by `ttl`; `auto` takes more than 43200 for milliseconds (not in strict mode)."""
    regions: tuple[str, ...] = ("us-east-1",)


class QuotaSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a tenant without a quota of its own may have; see `core.quotas`. Unset messages and rates have no limit."""

    max_queues: Count = 100_000
    max_listeners: Count = 10_000
    max_messages: Count | None = None
    max_message_bytes: Count | None = None
    max_stages: Count = 10_000
    max_waiting_receivers: Count = 10_000
    requests_per_second: Rate | None = None


class DialectSettings(msgspec.Struct, frozen=True, kw_only=True):
    cloudflare: CloudflareSettings = CloudflareSettings()
    anypoint: AnypointSettings = AnypointSettings()


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    host: str = "127.0.0.1"
    port: Port = 8080
    """0 takes any free port; the one in use is written to `<data>/port`."""
    data: Path = Path("courier-data")
    store: str = "sqlite:"
    """`sqlite:` lives in the data directory; `postgresql://user@host/database` is shared by up to eight nodes."""
    store_file: Path | None = None
    root_token: str | None = None
    root_token_file: Path | None = None
    """A file that holds the value of the setting without `_file`, for secrets that an orchestrator mounts."""
    umask: str = "077"
    """Octal permission bits that new files and directories do not get; the database is private whatever this says."""

    max_request_bytes: Bytes = 64 * MIB
    max_buffered_bytes: Count = 256 * MIB
    """How many bytes of request bodies the server holds at a time; beyond that, requests are refused for a while."""
    max_connections: Count = 10_000
    header_timeout_ms: Milliseconds = 10 * SECOND
    body_timeout_ms: Milliseconds = MINUTE
    keep_alive_ms: Milliseconds = 75 * SECOND
    write_timeout_ms: Milliseconds = MINUTE
    shutdown_ms: Milliseconds = 30 * SECOND
    """How long a stopping server lets requests in hand finish."""
    trusted_proxies: tuple[str, ...] = ()
    """Networks such as `10.0.0.0/8` whose reverse proxies may name their client by `Forwarded` or `X-Forwarded-*`."""
    cors_origins: tuple[str, ...] = ()
    """Origins whose pages may call from a browser; `*` allows all."""
    tls_cert: Path | None = None
    tls_key: Path | None = None

    max_clock_skew_ms: Milliseconds = 10 * SECOND
    """On PostgreSQL a node whose clock differs from the database's by more does not serve."""
    accept_loss: bool = False
    """Start the embedded store although commits that it had synced are missing, and go on with what is left."""
    min_free_bytes: Bytes = 64 * MIB
    """With less room than this on the disk, writes are refused."""
    journal_age_ms: Milliseconds = 7 * DAY
    journal_bytes: Bytes = 10 * 1024 * MIB
    """The journal forgets what is older than its age or exceeds its size."""
    archive: str | None = None
    """Where the journal is sealed to: a folder or a URL such as `s3://bucket/courier`; unset is `<data>/archive`.
    On PostgreSQL there is no archive unless a place is named, which all nodes must reach."""
    archive_enabled: bool = True
    archive_segment_bytes: Count = 64 * MIB
    archive_segment_ms: Milliseconds = 5 * MINUTE
    """A segment is sealed when it has this much, or when its first event is so old."""
    archive_age_ms: Milliseconds = 30 * DAY
    archive_bytes: Bytes = 50 * 1024 * MIB
    """The archive forgets what is older than its age or exceeds its size, unless a cursor holds it."""
    lake: Path | None = None
    """Where the pipeline keeps its tables, which stats answer from; unset is `<data>/lake`."""

    delivery_allow: tuple[str, ...] = ()
    """Networks such as `10.0.0.0/8` that listeners may be in; others that are not public are refused."""
    delivery_blocked_ports: tuple[Port, ...] = BLOCKED_PORTS
    """Ports that nothing is delivered to, at any address."""
    delivery_proxy: str | None = None
    """An HTTP proxy that deliveries go through, such as `http://user:password@proxy.internal:3128`."""
    delivery_proxy_resolves: bool = False
    """Whether the proxy resolves names and refuses those that point inside; otherwise Courier does both."""
    delivery_ca_file: Path | None = None
    """Certificates of authorities that receivers' certificates may come from, beside the system's."""
    delivery_client_cert: Path | None = None
    delivery_client_key: Path | None = None
    """What Courier shows to receivers that ask for a client certificate."""
    delivery_disable_ms: Milliseconds = 5 * DAY
    """A listener that has had nothing but failures for so long is disabled."""
    delivery_liveness_ms: Milliseconds = MINUTE
    """How often a listener's liveness URL is looked at."""

    console_enabled: bool = True
    """Whether the web console is served at `/console`."""
    console_read_only: bool = False
    """Whether a browser that is signed in can look but change nothing."""
    console_hide_bodies: bool = False
    """Whether the console shows the body of a message only after a click."""
    console_prefix: str | None = None
    """The path below which a proxy shows this server, such as `/courier`, where it sends no `X-Forwarded-Prefix`."""
    console_streams: Count = 64
    """How many live streams one node serves at a time."""

    quotas: QuotaSettings = QuotaSettings()

    secrets_key_file: Path | None = None
    """Keys that listeners' secrets are encrypted with at rest, one a line in base64, the newest first."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["auto", "human", "json"] = "auto"
    metrics_public: bool = False
    """Whether `/metrics` shows the figures of queues, with their tenants and names, to callers other than root."""
    metrics_per_queue: Bytes = 1_000
    """With more queues than this, `/metrics` leaves out the series of single queues; 0 always leaves them out."""
    otel_endpoint: str | None = None
    """Where traces go, such as `http://localhost:4318`; needs the extra `tracing`."""
    dialects: DialectSettings = DialectSettings()

    @property
    def lake_place(self) -> Path:
        return self.data / "lake" if self.lake is None else self.lake

    @property
    def umask_bits(self) -> int:
        return int(self.umask, 8)


class ConfigError(Exception):
    """A setting is wrong; the text is one sentence that says which and why."""


def load(
    *, flags: Mapping[str, object] | None = None, environ: Mapping[str, str] | None = None, file: Path | None = None
) -> Settings:
    """Settings from all three places; a flag that is None was not given.

    Without `file`, COURIER_CONFIG names the file, else `courier.toml` is read where there is one.
    """
    environ = environ or {}
    values: dict[str, object] = {}
    for layer in (_from_file(file, environ), _from_environ(environ), _from_flags(flags or {})):
        values.update(_with_secrets(layer))
    settings = _build(Settings, values)
    _check(settings)
    return settings


def _leaves(struct: type[msgspec.Struct], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for field in msgspec.structs.fields(struct):
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            yield from _leaves(field.type, f"{prefix}{field.name}.")
        else:
            yield prefix + field.name, field.type


KEYS: dict[str, Any] = dict(_leaves(Settings))
"""Every key and the type of its value."""

VARIABLES = {f"COURIER_{key.upper().replace('.', '_')}": key for key in KEYS}
CLIENT_VARIABLES = {"COURIER_CONFIG", "COURIER_URL", "COURIER_TOKEN", "COURIER_TOKEN_FILE", "COURIER_TENANT"}
"""What the command line reads; a server started from the same shell must not stumble over it."""


def _from_file(file: Path | None, environ: Mapping[str, str]) -> dict[str, object]:
    named = file or (Path(environ["COURIER_CONFIG"]) if environ.get("COURIER_CONFIG") else None)
    path = named or DEFAULT_FILE
    if named is None and not path.exists():
        return {}
    try:
        tables = tomllib.loads(path.read_text())
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None
    flat = dict(_flatten(tables))
    for key in flat:
        if key not in KEYS:
            raise ConfigError(f"{path} sets {key!r}, which is not a setting")
    return {key: _value(key, value, f"{key!r} in {path}", strict=True) for key, value in flat.items()}


def _flatten(tables: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in tables.items():
        key = prefix + name
        if isinstance(value, dict) and key not in KEYS:
            yield from _flatten(value, f"{key}.")
        else:
            yield key, value


def _from_environ(environ: Mapping[str, str]) -> dict[str, object]:
    values: dict[str, object] = {}
    for name, text in environ.items():
        if not name.startswith("COURIER_") or name in CLIENT_VARIABLES:
            continue
        if name in {"COURIER_ROOT_TOKEN", "COURIER_ROOT_TOKEN_FILE", "COURIER_STORE_FILE"} and not text:
            continue  # how a shell or a container says that there is none: one is made
        key = VARIABLES.get(name)
        if key is None:
            raise ConfigError(f"the variable {name} is not a setting")
        values[key] = _value(key, text, f"the variable {name}")
    return values


def _from_flags(flags: Mapping[str, object]) -> dict[str, object]:
    values: dict[str, object] = {}
    for key, value in flags.items():
        if key not in KEYS:
            raise ConfigError(f"{key!r} is not a setting")
        if value is not None:
            values[key] = _value(key, value, f"--{key.replace('_', '-')}")
    return values


def _with_secrets(layer: dict[str, object]) -> dict[str, object]:
    """The settings of one source, with those that it keeps in files read from there."""
    settings = dict(layer)
    for key in SECRETS:
        path = settings.pop(f"{key}_file", None)
        if path is None:
            continue
        if key in settings:
            raise ConfigError(f"{key} and {key}_file are one setting; set one of them")
        settings[key] = read_secret_file(Path(str(path)))
    return settings


def read_secret_file(path: Path) -> str:
    """The first line of a file, which must be all of it."""
    try:
        with path.open("rb") as file:
            content = file.read(SECRET_FILE_BYTES + 1)
        text = content.decode().strip()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        text = ""
    if not text or len(content) > SECRET_FILE_BYTES or not text.isprintable():
        raise ConfigError(f"{path} must hold one line of text, the secret, of at most {SECRET_FILE_BYTES} bytes")
    return text


def _value(key: str, value: object, source: str, *, strict: bool = False) -> object:
    if not strict and isinstance(value, str) and isinstance(inspect.type_info(KEYS[key]), inspect.VarTupleType):
        value = [part.strip() for part in value.split(",") if part.strip()]
    try:
        return msgspec.convert(value, KEYS[key], strict=strict, dec_hook=_to_path)
    except (msgspec.ValidationError, NotImplementedError):
        raise ConfigError(f"{source} must be {_wanted(inspect.type_info(KEYS[key]))}") from None


def _to_path(kind: type, value: object) -> Path:
    if isinstance(value, kind):
        return value  # type: ignore[return-value]
    if isinstance(value, str) and value:
        return Path(value).expanduser()
    raise NotImplementedError


def _wanted(info: inspect.Type) -> str:
    """What a value must be, in words."""
    match info:
        case inspect.IntType(ge=int(low), le=int(high)):
            return f"a whole number from {low} to {high}"
        case inspect.FloatType():
            return "a number greater than 0"
        case inspect.IntType(ge=int(low)):
            return f"a whole number, {low} or more"
        case inspect.LiteralType(values=values):
            return "one of " + ", ".join(map(str, values))
        case inspect.VarTupleType(item_type=inspect.IntType()):
            return "a list of whole numbers"
        case inspect.VarTupleType():
            return "a list of texts"
        case inspect.BoolType():
            return "true or false"
        case inspect.CustomType():
            return "a path"
        case inspect.UnionType(types=types):
            return _wanted(next(part for part in types if not isinstance(part, inspect.NoneType)))
    return "a text"


def _build(struct: type[S], values: Mapping[str, object], prefix: str = "") -> S:
    given: dict[str, object] = {}
    for field in msgspec.structs.fields(struct):
        key = prefix + field.name
        if key in values:
            given[field.name] = values[key]
        elif key not in KEYS:
            given[field.name] = _build(field.type, values, f"{key}.")
    return struct(**given)


def _check(settings: Settings) -> None:
    if (settings.tls_cert is None) != (settings.tls_key is None):
        raise ConfigError("tls_cert and tls_key belong together; set both or neither")
    if settings.store != "sqlite:" and not settings.store.startswith(("postgresql://", "postgres://")):
        raise ConfigError(
            f"store is {settings.store!r}; it must be 'sqlite:', which lives in the data directory, or the URL of a"
            " PostgreSQL database"
        )
    if not _UMASK.fullmatch(settings.umask):
        raise ConfigError(
            f"umask is {settings.umask!r}; it must be octal and leave the owner all rights, as 077 or 027"
        )
    if settings.console_prefix is not None and not _CONSOLE_PREFIX.fullmatch(settings.console_prefix):
        raise ConfigError(f"console_prefix is {settings.console_prefix!r}; it must be a path such as /courier")
    _check_networks("delivery_allow", settings.delivery_allow)
    _check_networks("trusted_proxies", settings.trusted_proxies)
    if settings.delivery_client_key is not None and settings.delivery_client_cert is None:
        raise ConfigError("delivery_client_key needs delivery_client_cert; set both")
    _check_root_token(settings)


def _check_root_token(settings: Settings) -> None:
    if settings.root_token is None:
        return
    if len(settings.root_token) < LOCAL_TOKEN_CHARS:
        raise ConfigError(f"root_token must have at least {LOCAL_TOKEN_CHARS} characters")
    if len(settings.root_token) < TOKEN_CHARS and not _is_loopback(settings.host):
        raise ConfigError(
            f"root_token must have at least {TOKEN_CHARS} characters, because host {settings.host!r} is not a loopback"
            " address and others may reach it"
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _check_networks(key: str, networks: tuple[str, ...]) -> None:
    for network in networks:
        try:
            ipaddress.ip_network(network)
        except ValueError:
            raise ConfigError(f"{key} has {network!r}, which is not a network such as 10.0.0.0/8") from None
