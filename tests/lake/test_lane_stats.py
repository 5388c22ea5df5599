"""Statistics of a journal with several lanes, from tables and journal: the same as with one."""

import pytest

from couriermq import server
from tests.lake import test_stats
from tests.support.laned import LanedStore


@pytest.fixture(autouse=True)
def _lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "SqliteStore", LanedStore)


app = test_stats.app
test_native = test_stats.test_tables_and_journal_together_say_what_the_journal_alone_would
test_totals = test_stats.test_a_tenants_totals_are_those_of_its_queues
test_anypoint = test_stats.test_the_history_of_an_anypoint_queue_is_the_same_with_tables
test_anypoint_usage = test_stats.test_the_usage_of_an_anypoint_environment_is_the_same_with_tables
test_discue = test_stats.test_the_last_day_of_a_discue_organization_is_the_same_with_tables
