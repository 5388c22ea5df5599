"""Where the data of a server on this machine is, found as the server itself would find it."""

import os
from pathlib import Path
from typing import Annotated

from cyclopts import Group, Parameter

from couriermq.cli.exits import usage
from couriermq.config import ConfigError, Settings, load

PLACE = Group("Data", sort_key=70)

Data = Annotated[
    Path | None,
    Parameter(group=PLACE, metavar="DIR", help="The data directory. [env var: COURIER_DATA] [default: courier-data]"),
]
Config = Annotated[
    Path | None,
    Parameter(
        group=PLACE, metavar="FILE", help="The settings' file. [env var: COURIER_CONFIG] [default: courier.toml]"
    ),
]

LakePlace = Annotated[
    Path | None,
    Parameter(
        name="--lake",
        group=PLACE,
        metavar="DIR",
        help="The folder of the tables. [env var: COURIER_LAKE] [default: courier-data/lake]",
    ),
]


def read_settings(flags: dict[str, object], config: Path | None) -> Settings:
    """The settings a server would have with these flags; from now on files are made with their umask."""
    try:
        settings = load(flags=flags, environ=os.environ, file=config)
    except ConfigError as error:
        raise usage(str(error)) from None
    os.umask(settings.umask_bits)
    return settings


def data_directory(data: Path | None, config: Path | None) -> Path:
    return read_settings({"data": data}, config).data


def lake_directory(lake: Path | None) -> Path:
    """Where the tables are, as a server with the same environment would find them."""
    return read_settings({"lake": lake}, None).lake_place
