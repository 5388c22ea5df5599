"""Things that an older Courier has stored, as this one keeps them."""

import msgspec

from couriermq.core.model import Credential

_CLIENT_APP, _ANYPOINT_SCOPES = "anypoint.client_app", "anypoint.scopes"


def upgraded(credential: Credential) -> Credential:
    """A credential that was stored when Anypoint kept rights among the annotations, where anybody could change them."""
    annotations = dict(credential.annotations)
    is_client_app, listed = annotations.pop(_CLIENT_APP, None), annotations.pop(_ANYPOINT_SCOPES, None)
    if len(annotations) == len(credential.annotations):
        return credential
    facts, scopes = dict(credential.dialect_facts), dict(credential.dialect_scopes)
    if is_client_app:
        facts.setdefault("anypoint", {"client_app": True})
    if listed is not None:
        words = listed if isinstance(listed, list) else []  # what is no list of scopes allowed nothing
        scopes.setdefault("anypoint", tuple(word for word in words if isinstance(word, str)))
    return msgspec.structs.replace(credential, annotations=annotations, dialect_facts=facts, dialect_scopes=scopes)
