"""Settings: read once from flags, `COURIER_*` variables and `courier.toml`, in that order, then passed down.

Every setting has one dotted key, such as `port` or `dialects.cloudflare.json_body`. The file spells it as a table,
a variable as `COURIER_DIALECTS_CLOUDFLARE_JSON_BODY`. A key that nobody knows is an error that names it.
"""

import ipaddress
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

Port = Annotated[int, msgspec.Meta(ge=0, le=65_535)]
Bytes = Annotated[int, msgspec.Meta(ge=0)]
Milliseconds = Annotated[int, msgspec.Meta(ge=1)]
Count = Annotated[int, msgspec.Meta(ge=1)]


class CloudflareSettings(msgspec.Struct, frozen=True, kw_only=True):
    json_body: Literal["plain", "base64"] = "plain"
    """How a pull shows a message that was pushed as JSON."""


class AnypointSettings(msgspec.Struct, frozen=True, kw_only=True):
    mode: Literal["strict", "lenient"] = "lenient"
    """Whose side to take where the vendor's documents disagree with its clients."""
    lock_ttl_unit: Literal["auto", "seconds", "milliseconds"] = "auto"
    """What a PATCH of a lock means by `ttl`; `auto` takes more than 43200 for milliseconds (not in strict mode)."""
    regions: tuple[str, ...] = ("us-east-1",)


class DialectSettings(msgspec.Struct, frozen=True, kw_only=True):
    cloudflare: CloudflareSettings = CloudflareSettings()
    anypoint: AnypointSettings = AnypointSettings()


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    host: str = "127.0.0.1"
    port: Port = 8080
    """0 takes any free port; the one in use is written to `<data>/port`."""
    data: Path = Path("courier-data")
    store: str = "sqlite:"
    """`sqlite:` lives in the data directory; `postgresql://user@host/database` is shared by any number of nodes."""
    root_token: str | None = None

    max_request_bytes: Bytes = 64 * MIB
    max_connections: Count = 10_000
    header_timeout_ms: Milliseconds = 10 * SECOND
    body_timeout_ms: Milliseconds = MINUTE
    keep_alive_ms: Milliseconds = 75 * SECOND
    write_timeout_ms: Milliseconds = MINUTE
    shutdown_ms: Milliseconds = 30 * SECOND
    """How long a stopping server lets requests in hand finish."""
    cors_origins: tuple[str, ...] = ()
    """Origins whose pages may call from a browser; `*` allows all."""
    tls_cert: Path | None = None
    tls_key: Path | None = None

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
    delivery_disable_ms: Milliseconds = 5 * DAY
    """A listener that has had nothing but failures for so long is disabled."""
    delivery_liveness_ms: Milliseconds = MINUTE
    """How often a listener's liveness URL is looked at."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["auto", "human", "json"] = "auto"
    metrics_public: bool = False
    """Whether `/metrics` shows the figures of queues, with their tenants and names, to callers other than root."""
    otel_endpoint: str | None = None
    """Where traces go, such as `http://localhost:4318`; needs the extra `tracing`."""
    dialects: DialectSettings = DialectSettings()

    @property
    def lake_place(self) -> Path:
        return self.data / "lake" if self.lake is None else self.lake


class ConfigError(Exception):
    """A setting is wrong; the text is one sentence that says which and why."""


def load(
    *, flags: Mapping[str, object] | None = None, environ: Mapping[str, str] | None = None, file: Path | None = None
) -> Settings:
    """Settings from all three places; a flag that is None was not given.

    Without `file`, COURIER_CONFIG names the file, else `courier.toml` is read where there is one.
    """
    environ = environ or {}
    values = _from_file(file, environ)
    values.update(_from_environ(environ))
    values.update(_from_flags(flags or {}))
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
CLIENT_VARIABLES = {"COURIER_CONFIG", "COURIER_URL", "COURIER_TOKEN", "COURIER_TENANT"}
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
        if name == "COURIER_ROOT_TOKEN" and not text:
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
        case inspect.IntType(ge=int(low)):
            return f"a whole number, {low} or more"
        case inspect.LiteralType(values=values):
            return "one of " + ", ".join(map(str, values))
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
    for network in settings.delivery_allow:
        try:
            ipaddress.ip_network(network)
        except ValueError:
            raise ConfigError(f"delivery_allow has {network!r}, which is not a network such as 10.0.0.0/8") from None
    if settings.root_token is not None and len(settings.root_token) < 8:
        raise ConfigError("root_token must have at least 8 characters")
