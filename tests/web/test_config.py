"""Settings come from flags, variables and the file, in that order, and say what is wrong with them."""

from pathlib import Path

import pytest

from couriermq.config import ConfigError, Settings, load


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "courier.toml"


def refusal(**sources: object) -> str:
    with pytest.raises(ConfigError) as caught:
        load(**sources)
    return str(caught.value)


def test_without_any_source_the_defaults_hold(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert load() == Settings()


def test_a_flag_wins_over_a_variable_and_a_variable_over_the_file(file):
    file.write_text('port = 1\nhost = "file"\nlog_level = "error"\n')
    environ = {"COURIER_PORT": "2", "COURIER_HOST": "variable"}
    settings = load(flags={"port": 3, "host": None}, environ=environ, file=file)
    assert (settings.port, settings.host, settings.log_level) == (3, "variable", "error")


def test_courier_toml_in_the_working_directory_is_read(file, monkeypatch):
    file.write_text("port = 9999\n")
    monkeypatch.chdir(file.parent)
    assert load().port == 9999


def test_a_variable_can_name_the_file(file):
    file.write_text("port = 7\n")
    assert load(environ={"COURIER_CONFIG": str(file)}).port == 7


def test_a_table_of_the_file_reaches_the_dialect(file):
    file.write_text('[dialects.cloudflare]\njson_body = "base64"\n[dialects.anypoint]\nregions = ["eu-central-1"]\n')
    dialects = load(file=file).dialects
    assert (dialects.cloudflare.json_body, dialects.anypoint.regions) == ("base64", ("eu-central-1",))


def test_a_variable_reaches_the_dialect_too():
    settings = load(environ={"COURIER_DIALECTS_ANYPOINT_MODE": "strict", "COURIER_DIALECTS_ANYPOINT_REGIONS": "a, b"})
    assert (settings.dialects.anypoint.mode, settings.dialects.anypoint.regions) == ("strict", ("a", "b"))


def test_text_in_a_variable_becomes_what_the_setting_is():
    environ = {
        "COURIER_DATA": "/srv/courier",
        "COURIER_METRICS_PUBLIC": "true",
        "COURIER_CORS_ORIGINS": "https://a.example,https://b.example",
    }
    settings = load(environ=environ)
    assert settings.data == Path("/srv/courier")
    assert settings.metrics_public is True
    assert settings.cors_origins == ("https://a.example", "https://b.example")


def test_a_home_directory_may_be_a_tilde():
    assert load(flags={"data": "~/q"}).data == Path("~/q").expanduser()


def test_an_unknown_key_of_the_file_is_named(file):
    file.write_text("[dialects.cloudflare]\njson_bodies = 1\n")
    assert refusal(file=file) == f"{file} sets 'dialects.cloudflare.json_bodies', which is not a setting"


def test_an_unknown_variable_is_named():
    assert refusal(environ={"COURIER_PROT": "1"}) == "the variable COURIER_PROT is not a setting"


def test_an_unknown_flag_is_named():
    assert refusal(flags={"prot": 1}) == "'prot' is not a setting"


def test_variables_of_the_command_line_and_of_others_are_left_alone():
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
def test_a_bad_value_is_answered_with_what_is_wanted(variable, text, wanted):
    assert refusal(environ={variable: text}) == f"the variable {variable} must be {wanted}"


def test_the_file_must_use_the_right_type(file):
    file.write_text('port = "8080"\n')
    assert refusal(file=file) == f"'port' in {file} must be a whole number from 0 to 65535"


def test_a_bad_value_is_not_repeated_for_it_may_be_a_secret(file):
    file.write_text("root_token = 12345678\n")
    assert "12345678" not in refusal(file=file)


def test_a_file_that_was_named_must_exist(file):
    assert refusal(file=file) == f"{file} cannot be read: No such file or directory"


def test_a_file_that_is_not_toml_says_where(file):
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
    ],
)
def test_settings_that_make_no_sense_together_are_refused(flags, sentence):
    assert refusal(flags=flags) == sentence


def test_an_empty_root_token_is_none() -> None:
    assert load(environ={"COURIER_ROOT_TOKEN": ""}).root_token is None
