"""Which tests are slow, and which run at night, by measured CPU time.

``make durations``, on a machine that does nothing else, keeps what each test takes in ``tests/durations.json``. A
test that is not in the file counts as fast. A test is *slow* above `SLOW` seconds, and *nightly* above `NIGHTLY`
seconds or by a pattern in ``tests/nightly.txt``, which also names tests that run by day whatever they take. Of a test
with several ``parametrize`` marks, whose cases are all combinations of their values, those slow cases are nightly too
that add no new value: each value of each mark still runs by day.
"""

import json
import re
import resource
import time
from collections import defaultdict
from pathlib import Path

import pytest

#: CPU seconds, of a test with its own fixtures and processes.
SLOW, NIGHTLY = 0.05, 0.5
#: Durations below this one are not worth a line.
SHORTEST = 0.05
HERE = Path(__file__).parent
FILE, PATTERNS = HERE / "durations.json", HERE / "nightly.txt"
_PROPERTY = "CPU seconds"
_BY_DAY = "by day "


def pytest_addoption(parser):
    parser.addoption("--write-durations", action="store_true", help="Write the CPU time of each test to a file.")


def cpu_seconds():
    """Return the CPU time of this process, and of its children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def patterns():
    """Return the patterns of tests that run at night, and of those that run by day for any duration."""
    lines = PATTERNS.read_text(encoding="utf-8").splitlines()
    lines = [line for line in lines if line and not line.startswith("#")]
    night = [re.compile(line) for line in lines if not line.startswith(_BY_DAY)]
    return night, [re.compile(line.removeprefix(_BY_DAY)) for line in lines if line.startswith(_BY_DAY)]


def matching(items, those):
    """Return the tests whose names match one of these patterns."""
    # Most patterns begin with the file, and most files have none: a file is compared once, and then its tests.
    files = {item.nodeid.partition("::")[0] for item in items}
    of_file = {file: [one for one in those if _may_be_in(file, one.pattern)] for file in files}
    return {item for item in items if any(one.search(item.nodeid) for one in of_file[item.nodeid.partition("::")[0]])}


def _may_be_in(file, pattern):
    begin = re.match(r"\^((?:[\w/]|\\\.)+)::", pattern)
    return begin is None or begin[1].replace("\\.", ".") == file


def values_of(item):
    """Return the values of a case: what each of its marks or fixtures with parameters gives it."""
    params = dict(item.callspec.params)
    found = []
    for place, mark in enumerate(item.iter_markers("parametrize")):
        names = mark.args[0]
        names = [name.strip() for name in names.split(",")] if isinstance(names, str) else names
        found.append((place, *(id(params.pop(name, None)) for name in names)))
    return {*found, *((name, id(value)) for name, value in params.items())}


def repeats(cases):
    """Return which cases of a test add no value that the others lack: dear ones, and those with few new values.

    Parameters
    ----------
    cases : list of (case, seconds, set of values)
        Cases of up to `SLOW` seconds are kept.
    """
    left = set().union(*(values for _, _, values in cases))
    left -= set().union(*(values for _, seconds, values in cases if seconds <= SLOW))
    rest = [case for case in cases if case[1] > SLOW]
    while left:
        best = max(rest, key=lambda case: len(case[2] & left) / case[1])
        rest.remove(best)
        left -= best[2]
    return [case for case, _, _ in rest]


def pytest_collection_modifyitems(items):
    """Mark tests by their measured time."""
    measured, (at_night, by_day) = json.loads(FILE.read_text(encoding="utf-8")), patterns()
    seconds = {item: measured.get(item.nodeid, 0.0) for item in items}
    kept = matching(items, by_day)
    nightly = ({item for item in items if seconds[item] > NIGHTLY} | matching(items, at_night)) - kept
    tests = defaultdict(list)
    for item in items:
        if hasattr(item, "callspec") and item not in nightly | kept:
            tests[item.nodeid.partition("[")[0]].append((item, seconds[item], values_of(item)))
    for cases in tests.values():
        nightly.update(repeats(cases))
    for item in items:
        if item in nightly:
            item.add_marker(pytest.mark.nightly)
        # A test may also say itself that it runs at night.
        if item.get_closest_marker("nightly") or seconds[item] > SLOW:
            item.add_marker(pytest.mark.slow)


class Recorder:
    """Adds up the CPU time of each test, also where several processes run tests."""

    def __init__(self):
        self.seconds = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        item.stash[_START] = cpu_seconds(), time.monotonic()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        report = yield
        if report.when == "teardown":
            cpu, wall = item.stash[_START]
            cpu, wall = cpu_seconds() - cpu, time.monotonic() - wall
            # The CPU time of a process counts when the process ends. A server that a test talks to is still running,
            # and one that ends now may have served other tests.
            report.user_properties.append((_PROPERTY, min(max(cpu, wall / 2), 2 * wall)))
        return report

    def pytest_runtest_logreport(self, report):
        for name, value in report.user_properties:
            if name == _PROPERTY and report.when == "teardown":
                self.seconds[report.nodeid] = value

    def pytest_sessionfinish(self, session):
        if hasattr(session.config, "workerinput"):
            return
        known = json.loads(FILE.read_text(encoding="utf-8"))
        known |= {name: round(value, 2) for name, value in self.seconds.items()}
        kept = {name: value for name, value in sorted(known.items()) if value > SHORTEST}
        FILE.write_text(json.dumps(kept, indent=0) + "\n", encoding="utf-8")


_START = pytest.StashKey()


def pytest_configure(config):
    """Record durations where that was asked for."""
    if config.getoption("--write-durations"):
        config.pluginmanager.register(Recorder())
