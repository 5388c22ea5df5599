"""Annotations: any JSON that an owner keeps with a thing, as long as it is small and a store can hold it."""

import msgspec

from couriermq.core.errors import Invalid
from couriermq.core.model import Json
from couriermq.core.parsing import NESTING, is_too_deep
from couriermq.dialects.native.limits import ANNOTATION_BYTES

Annotations = dict[str, Json]

RESERVED = ("anypoint.", "cloudflare.", "discue.")
"""How the keys begin under which dialects keep facts of their own."""


def check_annotations(annotations: Annotations) -> Annotations:
    """The annotations themselves; raises Invalid where they are too large or too deep, or hold a number too large."""
    if is_too_deep(annotations):
        raise Invalid(f"annotations are nested too deeply; at most {NESTING} levels are allowed", field="annotations")
    try:
        size = len(msgspec.msgpack.encode(annotations))
    except OverflowError:
        raise Invalid("annotations hold a whole number that does not fit in 64 bits", field="annotations") from None
    if size > ANNOTATION_BYTES:
        raise Invalid(f"annotations are {size} bytes; at most {ANNOTATION_BYTES} are allowed", field="annotations")
    return annotations


def check_credential_annotations(annotations: Annotations) -> Annotations:
    """The same for a credential, whose rights are never annotations: keys that look so are refused."""
    for key in annotations:
        if key.startswith(RESERVED):
            raise Invalid(
                f"the annotation {key[:80]!r} is reserved for a dialect; rights are set with scopes and dialect_scopes",
                field="annotations",
            )
    return check_annotations(annotations)
