"""What every test shares: `async def` tests and fixtures run in one event loop a test, and Hypothesis' profiles."""

import asyncio
import functools
import inspect
from collections.abc import Coroutine, Generator, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support.spark import hurry

PATIENCE_SECONDS = 300

settings.register_profile(
    "courier", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.register_profile("soak", settings.get_profile("courier"), max_examples=2_000)
settings.load_profile("courier")
hurry()


@pytest.fixture
def loop_runner() -> Iterator[asyncio.Runner]:
    """The event loop of one test; its async fixtures live in it too."""
    with asyncio.Runner() as runner:
        yield runner


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first, so that nobody waits for them at the end; and the loop outlives all other fixtures."""
    items.sort(key=lambda item: "spark" not in item.path.parts)
    for item in items:
        if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
            item.fixturenames.insert(0, "loop_runner")


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    pyfuncitem.funcargs["loop_runner"].run(_patiently(pyfuncitem.obj(**arguments)))
    return True


async def _patiently(test: Coroutine[Any, Any, None]) -> None:
    """A test that waits for what never comes should say where it waits."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        await test


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any, request: pytest.FixtureRequest) -> Generator[None, object, object]:
    """Run an async generator fixture in the loop of the test that asks for it."""
    function = fixturedef.func
    if inspect.isasyncgenfunction(function):
        fixturedef.func = _in_loop(function, request.getfixturevalue("loop_runner"))
    try:
        return (yield)
    finally:
        fixturedef.func = function


def _in_loop(function: Any, runner: asyncio.Runner) -> Any:
    @functools.wraps(function)
    def fixture(*args: Any, **kwargs: Any) -> Iterator[Any]:
        steps = function(*args, **kwargs)
        yield runner.run(anext(steps))
        with pytest.raises(StopAsyncIteration):
            runner.run(anext(steps))

    return fixture
