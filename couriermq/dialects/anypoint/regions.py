"""Regions: names that clients choose from. All of them lead to the same server."""

from typing import Any

from couriermq.dialects.anypoint import place
from couriermq.dialects.anypoint.asking import reply
from couriermq.web.call import Call, Reply

NAMES = {
    "us-east-1": "US East (N. Virginia)",
    "us-east-2": "US East (Ohio)",
    "us-west-2": "US West (Oregon)",
    "ca-central-1": "Canada (Central)",
    "eu-central-1": "EU (Frankfurt)",
    "eu-west-1": "EU (Ireland)",
    "eu-west-2": "EU (London)",
    "ap-southeast-1": "Asia Pacific (Singapore)",
    "ap-southeast-2": "Asia Pacific (Sydney)",
    "ap-northeast-1": "Asia Pacific (Tokyo)",
}


async def list_regions(call: Call) -> Reply:
    place.tenant(call)
    return reply([_region(call, region) for region in place.customs(call).regions])


async def read_region(call: Call) -> Reply:
    place.tenant(call)
    return reply(_region(call, call.params["region"]))


def fallback_of(call: Call, region: str) -> str:
    """The next of the configured regions, round and round."""
    known = place.customs(call).regions
    return known[(known.index(region) + 1) % len(known)] if region in known else region


def _region(call: Call, region: str) -> dict[str, Any]:
    """The fields of both of the vendor's documents: one knows `id`, the other `regionId`."""
    return {
        "id": region,
        "name": NAMES.get(region, region),
        "type": "region",
        "regionId": region,
        "serviceUrl": f"{_base_url(call)}/api/v1",
        "fallbackRegion": fallback_of(call, region),
    }


def _base_url(call: Call) -> str:
    """This server as the caller reached it."""
    settings = call.services.settings
    if call.origin.host or call.header(b"host"):
        return call.base_url
    return f"{'https' if settings.tls_cert else 'http'}://{settings.host}:{settings.port}{call.base_url}"
