"""Credentials of an older store, in which Anypoint's rights were annotations."""

from typing import Any

import pytest

from couriermq.catalog.upgrading import upgraded
from couriermq.core.model import Credential


def old(**annotations: Any) -> Credential:
    return Credential(id="c", tenant="default", name="app", secret_hash=b"", annotations=annotations)


def test_a_client_app_stays_one() -> None:
    credential = upgraded(old(**{"anypoint.client_app": True, "team": "shop"}))
    assert credential.annotations == {"team": "shop"}
    assert credential.dialect_facts == {"anypoint": {"client_app": True}}
    assert credential.dialect_scopes == {}


def test_listed_scopes_stay_a_limit() -> None:
    credential = upgraded(old(**{"anypoint.scopes": ["clear:destinations"]}))
    assert (credential.annotations, credential.dialect_facts) == ({}, {})
    assert credential.dialect_scopes == {"anypoint": ("clear:destinations",)}


@pytest.mark.parametrize("nonsense", [[], "clear:destinations", 5, [7], {"a": 1}])
def test_what_was_no_list_of_scopes_allows_nothing(nonsense: Any) -> None:
    assert upgraded(old(**{"anypoint.scopes": nonsense})).dialect_scopes == {"anypoint": ()}


def test_other_credentials_stay_as_they_are() -> None:
    credential = old(team="shop")
    assert upgraded(credential) is credential
