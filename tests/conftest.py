"""What every test shares: an event loop for `async def` tests, the engine, markers, and Hypothesis' profiles."""

import asyncio
import atexit
import functools
import gc
import inspect
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from couriermq.storage.postgres import store as postgres_store

pytest.register_assert_rewrite("tests.support", "tests.journal.shelf", "tests.spark.bench", "tests.spark.killing")

# After that, so that the assertions in these modules show what they found.
from tests.support.schedule import rank  # noqa: E402
from tests.support.spark import hurry  # noqa: E402
from tests.support.stores import DEFAULT, choosing, on_chosen_engines  # noqa: E402
from tests.support.time_limit import cancellable, limited, seconds_for  # noqa: E402

TESTS = Path(__file__).parent

settings.register_profile(
    "default",
    deadline=None,
    print_blob=True,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("default")
hurry()


@pytest.fixture
def loop_runner() -> Iterator[asyncio.Runner]:
    """The event loop of one test; its async fixtures live in it too."""
    with asyncio.Runner() as runner:
        yield runner


pytest_generate_tests = on_chosen_engines


@pytest.fixture(scope="session")
def engine(request: pytest.FixtureRequest) -> str:
    """The engine of a Courier's data: the embedded one, or each in turn for a test marked `every_engine`."""
    return str(getattr(request, "param", DEFAULT))


@pytest.fixture
def _one_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that read the journal of a Courier in this process by offsets, which stay in one lane."""
    monkeypatch.setattr(postgres_store, "COMMITTERS", 1)


@pytest.fixture(autouse=True)
def _store_engine(engine: str) -> Iterator[None]:
    with choosing(engine):
        yield


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A run of the few tests that state one of these markers imports only the files that name it."""
    wanted = config.option.markexpr
    if wanted in ("cluster", "alone") and collection_path.match("test_*.py"):
        return f"mark.{wanted}" not in collection_path.read_text() or None
    return None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Nothing of what is collected goes away, so the garbage collector need not look at it, now or during the tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        atexit.register(gc.unfreeze)  # some extension modules complain about what is left when Python ends


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start the longest tests first, mark tests for what they need, and let the loop outlive all other fixtures."""
    items.sort(key=lambda item: rank(item.path.relative_to(TESTS)))
    for item in items:
        for need in _needs(item):
            item.add_marker(need)
        if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
            item.fixturenames.insert(0, "loop_runner")


def _needs(item: pytest.Item) -> Iterator[str]:
    """The markers that follow from a test's folder and from its engine; other tests state what they need."""
    folders = item.path.relative_to(TESTS).parts[:-1]
    cases = item.callspec.params.values() if hasattr(item, "callspec") else ()
    if "spark" in folders:
        yield "spark"
    if {"postgres", "sharded"}.intersection((*folders, *(case for case in cases if isinstance(case, str)))):
        yield "postgres"


@pytest.hookimpl(wrapper=True)
def _bounded(item: pytest.Item) -> Generator[None, object, object]:
    with limited(seconds_for(item)):
        return (yield)


pytest_runtest_setup = pytest_runtest_call = pytest_runtest_teardown = _bounded


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    runner = pyfuncitem.funcargs["loop_runner"]
    assert isinstance(runner, asyncio.Runner)
    runner.run(cancellable(pyfuncitem.obj(**arguments)))
    return True


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
