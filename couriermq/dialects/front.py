"""The page at `/`, which leads to what a server has for people to look at."""

from collections.abc import Sequence
from html import escape

import msgspec

from couriermq import __version__
from couriermq.dialects.openapi import page
from couriermq.web.call import Route


class Link(msgspec.Struct, frozen=True):
    """A page that a server may have."""

    path: str
    name: str
    purpose: str


KNOWN = (
    Link("/console", "Console", "queues, messages and deliveries to look at and to work with"),
    Link("/docs", "API reference", "every operation of every dialect, to read and to try"),
    Link("/openapi", "OpenAPI documents", "one for each dialect, for generated clients"),
    Link("/healthz", "Health", "whether the process is alive"),
    Link("/readyz", "Readiness", "whether it takes writes"),
    Link("/metrics", "Metrics", "for Prometheus"),
)
FOR_PEOPLE = ("/console", "/docs")
"""What the server names when it starts."""


def links_among(routes: Sequence[Route]) -> list[Link]:
    """Those of the known pages that the routes serve."""
    served = {route.pattern for route in routes}
    return [link for link in KNOWN if link.path in served]


def front_page(links: Sequence[Link]) -> Route:
    """The route of `/`."""
    return page("/", "text/html; charset=utf-8", lambda prefix: _write(links, escape(prefix)).encode())


def _write(links: Sequence[Link], prefix: str) -> str:
    items = "\n".join(
        f'        <li><a href="{prefix}{link.path}">{link.name}</a>: {link.purpose}</li>' for link in links
    )
    return _PAGE.format(prefix=prefix, items=items, version=__version__)


_PAGE = """\
<!doctype html>
<html lang="en" data-theme="auto">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <meta name="color-scheme" content="light dark">
    <title>Courier</title>
    <link rel="icon" href="{prefix}/docs/icon.svg" type="image/svg+xml">
    <link rel="stylesheet" href="{prefix}/docs/page.css">
  </head>
  <body>
    <main>
      <h1>Courier {version}</h1>
      <p>This server runs.</p>
      <ul>
{items}
      </ul>
    </main>
  </body>
</html>
"""
