import pytest

from couriermq.core.trace_context import traceparent_of

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_a_well_formed_trace_is_carried_as_it_is() -> None:
    assert traceparent_of(TRACE) == TRACE


@pytest.mark.parametrize(
    "text", [None, "", "nonsense", TRACE + "-extra", TRACE + "\n", TRACE.upper(), "٠٠" + TRACE[2:]]
)
def test_a_trace_that_is_not_well_formed_is_as_good_as_none(text: str | None) -> None:
    assert traceparent_of(text) is None
