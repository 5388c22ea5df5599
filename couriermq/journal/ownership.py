"""Whose archive it is: a note beside the segments names the store, and the incarnation that writes there."""

import msgspec

from couriermq.core.incarnations import Identity
from couriermq.journal.place import Place
from couriermq.storage.base import CannotOpen


class Owner(msgspec.Struct, frozen=True):
    """As the note has it."""

    store: str
    incarnation: str
    began_at: int


def check(place: Place, identity: Identity, *, shard: int) -> None:
    """Raises CannotOpen where another store writes, or a later incarnation of this one; an archive without a note is
    anybody's."""
    content = place.read_note(_name(shard))
    if content is None:
        return
    owner = msgspec.json.decode(content, type=Owner)
    if owner.store != identity.store:
        raise CannotOpen(
            f"the archive in {place} is that of store {owner.store}, and this is store {identity.store}; choose another"
            " place with the setting `archive`, or move the archive away"
        )
    is_known = owner.incarnation in {one.name for one in identity.incarnations}
    if not is_known and owner.began_at > identity.present.began_at:
        raise CannotOpen(
            f"the archive in {place} is written by incarnation {owner.incarnation} of this store, which began after"
            f" this one ({identity.present.name}): a copy was restored and runs elsewhere; stop one of the two"
        )


def write(place: Place, identity: Identity, *, shard: int) -> None:
    """From now on the present incarnation writes here."""
    present = identity.present
    content = msgspec.json.encode(Owner(identity.store, present.name, present.began_at))
    if place.read_note(_name(shard)) != content:
        place.write_note(_name(shard), content)


def _name(shard: int) -> str:
    return f"_store.{shard}.json" if shard else "_store.json"
