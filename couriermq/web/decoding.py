"""JSON as it comes in, and what is said of it when it is none."""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from couriermq.core import surrogates
from couriermq.web.errors import MalformedRequest

T = TypeVar("T")


def decode(
    decoder: "msgspec.json.Decoder[T]",
    body: bytes,
    *,
    misfit: Callable[[msgspec.ValidationError], Exception],
    halves: bool = False,
) -> T:
    """The body as the decoder's type; raises MalformedRequest for what is no JSON, `misfit` for the wrong JSON.

    Where a body may hold messages, `halves` lets its strings hold halves of surrogate pairs.
    """
    try:
        return surrogates.decode(decoder, body) if halves else decoder.decode(body)
    except msgspec.ValidationError as error:
        raise misfit(error) from None
    except msgspec.DecodeError as error:
        raise MalformedRequest(surrogates.complaint(body, error, halves=halves)) from None
    except UnicodeDecodeError:
        raise MalformedRequest("the body is not JSON: it is not UTF-8") from None
    except RecursionError:
        raise MalformedRequest("the body is not JSON: it is nested too deeply") from None
