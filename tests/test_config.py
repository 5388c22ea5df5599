"""Settings come from flags, variables and the file, in that order, and say what is wrong with them."""

from pathlib import Path
from typing import Any

import pytest

from couriermq.config import ConfigError, Settings, load


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "courier.toml"


def refusal(**sources: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        load(**sources)
    return str(caught.value)


def test_without_any_source_the_defaults_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load() == Settings()


def test_a_flag_wins_over_a_variable_and_a_variable_over_the_file(file: Path) -> None:
    file.write_text('port = 1\nhost = "file"\nlog_level = "error"\n')
    environ = {"COURIER_PORT": "2", "COURIER_HOST": "variable"}
    settings = load(flags={"port": 3, "host": None}, environ=environ, file=file)
    assert (settings.port, settings.host, settings.log_level) == (3, "variable", "error")


def test_courier_toml_in_the_working_directory_is_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("port = 9999\n")
    monkeypatch.chdir(file.parent)
    assert load().port == 9999


def test_a_variable_can_name_the_file(file: Path) -> None:
    file.write_text("port = 7\n")
    assert load(environ={"COURIER_CONFIG": str(file)}).port == 7


def test_a_table_of_the_file_reaches_the_dialect(file: Path) -> None:
    file.write_text('[dialects.cloudflare]\njson_body = "base64"\n[dialects.anypoint]\nregions = ["eu-central-1"]\n')
    dialects = load(file=file).dialects
    assert (dialects.cloudflare.json_body, dialects.anypoint.regions) == ("base64", ("eu-central-1",))


def test_a_variable_reaches_the_dialect_too() -> None:
    settings = load(environ={"COURIER_DIALECTS_ANYPOINT_MODE": "strict", "COURIER_DIALECTS_ANYPOINT_REGIONS": "a, b"})
    assert (settings.dialects.anypoint.mode, settings.dialects.anypoint.regions) == ("strict", ("a", "b"))


def test_text_in_a_variable_becomes_what_the_setting_is() -> None:
    environ = {
        "COURIER_DATA": "/srv/courier",
        "COURIER_METRICS_PUBLIC": "true",
        "COURIER_CORS_ORIGINS": "https://a.example,https://b.example",
    }
    settings = load(environ=environ)
    assert settings.data == Path("/srv/courier")
    assert settings.metrics_public is True
    assert settings.cors_origins == ("https://a.example", "https://b.example")


def test_a_home_directory_may_be_a_tilde() -> None:
    assert load(flags={"data": "~/q"}).data == Path("~/q").expanduser()


def test_an_unknown_key_of_the_file_is_named(file: Path) -> None:
    file.write_text("[dialects.cloudflare]\njson_bodies = 1\n")
    assert refusal(file=file) == f"{file} sets 'dialects.cloudflare.json_bodies', which is not a setting"


def test_an_unknown_variable_is_named() -> None:
    assert refusal(environ={"COURIER_PROT": "1"}) == "the variable COURIER_PROT is not a setting"


def test_an_unknown_flag_is_named() -> None:
    assert refusal(flags={"prot": 1}) == "'prot' is not a setting"


def test_variables_of_the_command_line_and_of_others_are_left_alone() -> None:
    load(environ={"COURIER_URL": "http://x", "COURIER_TOKEN": "t", "COURIERS": "9", "PATH": "/bin"})


@pytest.mark.parametrize(
    ("variable", "text", "wanted"),
    [
        ("COURIER_PORT", "http", "a whole number from 0 to 65535"),
        ("COURIER_PORT", "65536", "a whole number from 0 to 65535"),
        ("COURIER_KEEP_ALIVE_MS", "0", "a whole number, 1 or more"),
        ("COURIER_LOG_LEVEL", "loud", "one of debug, error, info, warning"),
        ("COURIER_METRICS_PUBLIC", "perhaps", "true or false"),
        ("COURIER_DATA", "", "a path"),
    ],
)
def test_a_bad_value_is_answered_with_what_is_wanted(variable: str, text: str, wanted: str) -> None:
    assert refusal(environ={variable: text}) == f"the variable {variable} must be {wanted}"


def test_the_file_must_use_the_right_type(file: Path) -> None:
    file.write_text('port = "8080"\n')
    assert refusal(file=file) == f"'port' in {file} must be a whole number from 0 to 65535"


def test_a_bad_value_is_not_repeated_for_it_may_be_a_secret(file: Path) -> None:
    file.write_text("root_token = 12345678\n")
    assert "12345678" not in refusal(file=file)


def test_a_file_that_was_named_must_exist(file: Path) -> None:
    assert refusal(file=file) == f"{file} cannot be read: No such file or directory"


def test_a_file_that_is_not_toml_says_where(file: Path) -> None:
    file.write_text("port 8080")
    assert refusal(file=file).startswith(f"{file} is not TOML: ")


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ({"tls_cert": "c.pem"}, "tls_cert and tls_key belong together; set both or neither"),
        (
            {"store": "mysql://db"},
            "store is 'mysql://db'; it must be 'sqlite:', which lives in the data directory, or the URL of a PostgreSQL"
            " database",
        ),
        ({"root_token": "short"}, "root_token must have at least 8 characters"),
        ({"umask": "700"}, "umask is '700'; it must be octal and leave the owner all rights, as 077 or 027"),
        ({"umask": "089"}, "umask is '089'; it must be octal and leave the owner all rights, as 077 or 027"),
    ],
)
def test_settings_that_make_no_sense_together_are_refused(flags: dict[str, object], sentence: str) -> None:
    assert refusal(flags=flags) == sentence


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "courier.example", ""])
def test_a_short_root_token_is_refused_where_others_can_try_it(host: str) -> None:
    sentence = f"root_token must have at least 24 characters, because host {host!r} is not a loopback address"
    assert refusal(flags={"root_token": "x" * 23, "host": host}).startswith(sentence)
    assert load(flags={"root_token": "x" * 24, "host": host}).host == host
    assert load(flags={"host": host}).root_token is None


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_a_short_root_token_will_do_on_loopback(host: str) -> None:
    assert load(flags={"root_token": "let-me-in", "host": host}).root_token == "let-me-in"


def test_an_empty_root_token_is_none() -> None:
    assert load(environ={"COURIER_ROOT_TOKEN": ""}).root_token is None


# -- secrets in files -----------------------------------------------------------------------------------------


def test_a_secret_may_stand_in_a_file(tmp_path: Path) -> None:
    token, store = tmp_path / "token", tmp_path / "store"
    token.write_text("a-token-from-a-mounted-file\n")
    store.write_text("postgresql://courier:pass@db/courier")
    environ = {"COURIER_ROOT_TOKEN_FILE": str(token), "COURIER_STORE_FILE": str(store)}
    settings = load(environ=environ)
    assert settings.root_token == "a-token-from-a-mounted-file"
    assert settings.store == "postgresql://courier:pass@db/courier"
    assert load(flags={"root_token_file": token}).root_token == settings.root_token


def test_a_file_in_a_stronger_place_wins_over_a_value_in_a_weaker_one(tmp_path: Path, file: Path) -> None:
    token = tmp_path / "token"
    token.write_text("token-from-a-file")
    file.write_text('root_token = "token-of-the-settings"\n')
    assert load(environ={"COURIER_ROOT_TOKEN_FILE": str(token)}, file=file).root_token == "token-from-a-file"
    file.write_text(f'root_token_file = "{token}"\n')
    assert load(file=file).root_token == "token-from-a-file"
    assert load(environ={"COURIER_ROOT_TOKEN": "token-in-a-variable"}, file=file).root_token == "token-in-a-variable"
    assert load(environ={"COURIER_ROOT_TOKEN_FILE": ""}).root_token is None


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff\xfe", b"two\nlines-of-it", b"x" * 70_000])
def test_a_file_that_holds_no_secret_is_refused_without_showing_it(tmp_path: Path, content: bytes) -> None:
    token = tmp_path / "token"
    token.write_bytes(content)
    sentence = f"{token} must hold one line of text, the secret, of at most 65536 bytes"
    assert refusal(flags={"root_token_file": token}) == sentence


def test_a_secret_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    assert (
        refusal(environ={"COURIER_STORE_FILE": str(missing)}) == f"{missing} cannot be read: No such file or directory"
    )


def test_a_secret_and_its_file_contradict_each_other(tmp_path: Path) -> None:
    environ = {"COURIER_ROOT_TOKEN": "a-token", "COURIER_ROOT_TOKEN_FILE": str(tmp_path)}
    assert refusal(environ=environ) == "root_token and root_token_file are one setting; set one of them"
