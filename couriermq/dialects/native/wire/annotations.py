"""Annotations: any JSON that an owner keeps with a thing, as long as it is small and a store can hold it."""

import msgspec

from couriermq.core.errors import Invalid
from couriermq.core.model import Json
from couriermq.dialects.native.limits import ANNOTATION_BYTES

Annotations = dict[str, Json]


def check_annotations(annotations: Annotations) -> Annotations:
    """The annotations themselves; raises Invalid where they are too large, or hold a number that is."""
    try:
        size = len(msgspec.msgpack.encode(annotations))
    except OverflowError:
        raise Invalid("annotations hold a whole number that does not fit in 64 bits", field="annotations") from None
    if size > ANNOTATION_BYTES:
        raise Invalid(f"annotations are {size} bytes; at most {ANNOTATION_BYTES} are allowed", field="annotations")
    return annotations
