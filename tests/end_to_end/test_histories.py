"""The same random histories, told through the native API: the wire adds nothing and loses nothing."""

import msgspec
import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from couriermq.core.model import Draft, Message
from tests.support.engines import Rig
from tests.support.histories import Histories
from tests.support.over_http import HttpRig
from tests.support.soak import repeated

STEPS = 40


class OverHttp(Histories):
    knows_untried = False
    knows_jobs = False

    def make_rig(self) -> Rig:
        return HttpRig(self.folder)

    def as_sent(self, draft: Draft) -> Draft:
        return msgspec.structs.replace(draft, trace=None)  # a trace belongs to a request, not to each of its messages

    def as_shown(self, message: Message) -> Message:
        return msgspec.structs.replace(message, delay_ms=0, retention_ms=None)  # the wire shows what came of them


@pytest.mark.slow
def test_no_history_tells_the_native_api_from_the_specification() -> None:
    profile = settings()
    count = profile.max_examples // 3
    for _ in repeated():
        run_state_machine_as_test(OverHttp, settings=settings(profile, max_examples=count, stateful_step_count=STEPS))
