"""Private records stay in the memory of the processes that need them, and go when those go.

One thread for libraries of linear algebra.

Bars of passes over private records: on the screen of their owner, and in no event. Where numbers of records are
private, all that is shown is the same for neighbouring data sets.
"""

import os
import pty
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, ClassifierMixin
from threadpoolctl import threadpool_info

from dpensemble import LabelMomentsClassifier, PATEClassifier, _work, show_progress
from dpensemble._work import (
    ShownPasses,
    available_memory,
    one_thread,
    pass_bar,
    pass_named,
    passes_counted,
    private_workers,
    progress_bar,
    progress_heard_by,
    progress_on_stderr,
    require_memory,
)
from dpensemble.allocation import partitions
from dpensemble.datasets.partitions import results_of
from dpensemble.errors import MemoryShortageError
from dpensemble.moments import learning
from dpensemble.teachers import TeacherEnsemble

from .conftest import SECONDS_BETWEEN_LINES
from .deadline import DeadlineError, deadline, until

MARK = np.float64(7.297352569371e-3)
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc and /dev/shm")

TRAINING = """
import sys, threading
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from dpensemble.allocation import partitions
from dpensemble.teachers import TeacherEnsemble

class Slow(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        self.rows_ = X
        open(sys.argv[1], "a").write("fitting\\n")
        threading.Event().wait()

X = np.full((4000, 200), float(sys.argv[2]))
y = np.arange(4000) % 2
teachers = TeacherEnsemble(Slow(), partitions(range(4000), 4, 1), np.array([0, 1]), entropy=0, n_jobs=2)
teachers.fit(X, y, lambda done: None)
"""


def places():
    """Return the folders in which programs leave what they share with others."""
    shared = "/dev/shm"  # noqa: S108
    return {Path(tempfile.gettempdir()), Path(shared), Path(os.environ.get("JOBLIB_TEMP_FOLDER", shared))}


def files_with(content, since):
    """Return the files in shared memory and temporary folders, changed since, that hold some bytes."""
    found = []
    for place in filter(Path.is_dir, places()):
        for path in place.rglob("*"):
            try:
                # Workers of other programs' tests do not concern this test.
                if path.is_file() and path.stat().st_mtime >= since and content in path.read_bytes():
                    found.append(str(path))
            except OSError:
                continue
    return found


def workers_of(pid):
    """Return the processes that a process has started."""
    children = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            children.append(int(status.parent.name))
    return children


def alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


@linux
def test_kill_9_leaves_no_worker_and_no_file_of_records(tmp_path):
    said, begun = tmp_path / "said", tmp_path / "begun"
    begun.touch()
    since = begun.stat().st_mtime - 1
    mark = float(MARK) + os.getpid()
    command = [sys.executable, "-c", TRAINING, str(said), repr(mark)]
    parent = subprocess.Popen(command, env=os.environ | {"TMPDIR": str(tmp_path)})
    try:
        until(lambda: said.exists() and said.read_text().count("fitting") >= 2)
        planted = np.full(8, mark).tobytes()
        while_running = files_with(planted, since) + [str(p) for p in tmp_path.iterdir() if planted in p.read_bytes()]
        workers = workers_of(parent.pid)
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    assert len(workers) >= 2
    until(lambda: not any(map(alive, workers)))
    assert while_running == []
    assert files_with(planted, since) == []


class KeepsAll(ClassifierMixin, BaseEstimator):
    """Its model is its records, as that of nearest neighbours is."""

    def fit(self, X, y):
        self.X_, self.classes_ = X, np.unique(y)
        # A pickle of records in a file would come back as a map of it.
        self.mapped_ = isinstance(X, np.memmap)
        return self

    def predict(self, X):
        assert not isinstance(self.X_, np.memmap)
        assert not isinstance(X, np.memmap)
        return np.full(len(X), self.classes_[-1])


class Nested(KeepsAll):
    """Has workers of its own."""

    def fit(self, X, y):
        super().fit(X, y)
        self.mapped_ = any(Parallel(n_jobs=2)(delayed(isinstance)(X, np.memmap) for _ in range(2)))
        return self


@pytest.mark.usefixtures("has_a_deadline")
@pytest.mark.parametrize(("estimator", "jobs"), [(KeepsAll(), 2), (Nested(), 1)])
def test_large_arrays_reach_workers_by_pipes_and_not_as_maps_of_files(estimator, jobs):
    X = np.random.default_rng(0).normal(size=(3000, 200))
    y = np.arange(3000) % 2
    ensemble = TeacherEnsemble(estimator, partitions(range(3000), 2, 1), np.array([0, 1]), entropy=0, n_jobs=jobs)
    ensemble.fit(X, y, lambda done: None)
    assert [model.mapped_ for model in ensemble._fitted[0].models] == [False, False]
    # A teacher that cannot answer would vote its majority. There is none here, so class 0.
    assert np.all(ensemble.vote(X[:2000]).ballots == 1)


@linux
@pytest.mark.parametrize("backend", ["loky", "multiprocessing"])
def test_workers_of_every_kind_end_with_their_parent(tmp_path, backend):
    code = f"""
import os, sys, threading
from joblib import Parallel, delayed, parallel_config
from dpensemble._work import private_workers
def work(path):
    open(path, "a").write(str(os.getpid()) + "\\n")
    threading.Event().wait()
if __name__ == "__main__":
    with parallel_config(backend={backend!r}):
        Parallel(n_jobs=2, **private_workers())(delayed(work)(sys.argv[1]) for _ in range(2))
"""
    script, said = tmp_path / "work.py", tmp_path / "said"
    script.write_text(code)
    parent = subprocess.Popen([sys.executable, str(script), str(said)])
    try:
        until(lambda: said.exists() and len(said.read_text().split()) == 2)
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    workers = [int(pid) for pid in said.read_text().split()]
    until(lambda: not any(map(alive, workers)))


@pytest.mark.usefixtures("has_a_deadline")
def test_workers_outlive_the_thread_that_started_them():
    """A training in a thread of a server must not take the workers of the next one with it."""

    def ask():
        found.append(set(Parallel(n_jobs=2, **private_workers())(delayed(os.getpid)() for _ in range(8))))

    found = []
    for _ in range(2):
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
        # Until the system, too, has ended the thread. With it the workers would go.
        task = Path(f"/proc/self/task/{thread.native_id}")
        until(lambda task=task: not task.exists())
    assert found[0] & found[1]
    assert os.getpid() not in found[1]


@pytest.mark.skipif(os.name != "posix", reason="locks have names on POSIX systems")
def test_locks_that_an_interrupt_leaves_behind_are_removed_without_a_word():
    code = """
from joblib.externals.loky.backend.resource_tracker import register
import _multiprocessing, os, sys
from dpensemble._work import private_workers
private_workers()
_multiprocessing.SemLock(0, 1, 1, sys.argv[1], False)
# One lock that is there, and one that was removed in the moment of the interrupt.
register(sys.argv[1], "semlock")
register(sys.argv[1] + "-gone", "semlock")
print(sys.warnoptions)
"""
    name = f"/dpensemble-{os.getpid()}"
    # The pipe ends with the process that removes locks, which outlives this one.
    command = [sys.executable, "-W", "default", "-c", code, name]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (ended.stdout, ended.stderr) == ("['default']\n", "")
    assert not Path(f"/dev/shm/sem.{name[1:]}").exists()  # noqa: S108


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="the system knows no alarm")
def test_a_test_whose_workers_do_not_answer_ends():
    with pytest.raises(DeadlineError, match="did not answer"), deadline(0.5):
        Parallel(n_jobs=2)(delayed(signal.pause)() for _ in range(2))
    # And the next one finds workers that do.
    with deadline():
        assert Parallel(n_jobs=2)(delayed(abs)(number) for number in (-1, 2)) == [1, 2]


@pytest.fixture(autouse=True)
def product():
    """Load a library of linear algebra."""
    return np.ones((2, 2)) @ np.ones((2, 2))


@pytest.mark.parametrize("user_api", ["blas", None])
def test_libraries_use_one_thread_and_as_many_as_before_afterwards(user_api):
    before = threadpool_info()
    with one_thread(user_api):
        within = [each["num_threads"] for each in threadpool_info() if user_api in (each["user_api"], None)]
        assert set(within) == {1}
    assert threadpool_info() == before


def test_libraries_are_looked_up_again_only_after_an_import(monkeypatch):
    one_thread()
    looked_up = _work._controller.cache_info().misses
    one_thread()
    assert _work._controller.cache_info().misses == looked_up
    monkeypatch.setitem(sys.modules, "a module that may load a library", ModuleType("another"))
    one_thread()
    assert _work._controller.cache_info().misses == looked_up + 1


class Rows:
    def __init__(self, n):
        self.n = n

    def tables(self):
        yield range(self.n)


@pytest.mark.usefixtures("few_synthetic_rows")
def test_a_pass_counts_its_parts(capsys):
    with show_progress(), passes_counted(public=True), pass_named("Round 2 of 3"):
        assert list(results_of(lambda tables: sum(map(len, tables)), [Rows(3), Rows(4)])) == [3, 4]
    assert "Round 2 of 3: 2 of 2 parts" in capsys.readouterr().err


@pytest.mark.usefixtures("few_synthetic_rows")
def test_the_first_pass_over_blocks_counts_for_the_next_ones(capsys):
    passes = ShownPasses()
    with show_progress(), passes_counted(public=True):
        for _ in range(2):
            assert len(list(passes.over(iter([([1, 2], [0, 1]), ([3], [0])])))) == 2
    shown = capsys.readouterr().err
    assert "Checking records: 3 records" in shown
    assert "Checking records: 3 of 3 records" in shown


@pytest.mark.usefixtures("few_synthetic_rows")
def test_a_pass_within_other_work_is_shown_below_it(capsys):
    counted = passes_counted(public=True)
    with show_progress(), counted, progress_bar("Releasing moments", 3), pass_bar(5, "parts") as advance:
        advance(1)
    shown = capsys.readouterr().err
    assert "Releasing moments" in shown
    # It is removed when it ends.
    assert "1 of 5 parts" not in shown.splitlines()[-1]


@pytest.mark.usefixtures("few_synthetic_rows")
def test_nothing_is_shown_by_default_and_programs_hear_nothing(capsys):
    heard = []
    with progress_heard_by(lambda *event: heard.append(event)), pass_bar(5, "parts") as advance:
        advance(5)
    counted, hearing = passes_counted(public=True), progress_heard_by(lambda *event: heard.append(event))
    with show_progress(), counted, hearing, pass_bar(7, "parts") as advance:
        advance(7)
    shown = capsys.readouterr().err
    assert heard == []
    assert "of 5 parts" not in shown
    assert "7 of 7 parts" in shown


@pytest.mark.usefixtures("few_synthetic_rows")
def test_a_fit_to_blocks_shows_its_passes_and_reports_rounds_only(capsys, monkeypatch):
    titles = []
    monkeypatch.setattr(learning, "pass_named", lambda title: titles.append(title) or pass_named(title))
    rng = np.random.default_rng(0)
    X = rng.normal(size=(137, 2))
    y = (X[:, 0] > 0).astype(int)
    events = []
    model = LabelMomentsClassifier(classes=[0, 1], delta=1e-3, rounds=2, insecure_release_seed=0)
    with show_progress(), progress_heard_by(lambda *event: events.append(event)):
        public = rng.normal(size=(40, 2))
        model.fit_blocks(lambda: iter([(X[:100], y[:100]), (X[100:], y[100:])]), X_public=public)
    # Bars of rounds vanish when the round ends.
    assert "Checking records: 137 records" in capsys.readouterr().err
    assert [title for title in titles if title != "Statistics"] == ["Round 1 of 2", "Round 2 of 2"]
    # Seconds may hold any digits.
    shown = [(event, {name: value for name, value in facts.items() if name != "seconds"}) for event, facts in events]
    assert shown
    assert "137" not in str(shown)


class Ticks:
    """Stands in for the event that ends the lines. Ten seconds pass at each tick, and no time otherwise."""

    def __init__(self):
        self.now, self._ticks, self._written = 0.0, queue.Queue(), queue.Queue()

    def wait(self, timeout):
        assert timeout == _work._SECONDS_BETWEEN_LINES
        self._written.put(None)
        return self._ticks.get()

    def set(self):
        self._ticks.put(True)

    def clock(self):
        return self.now

    def tick(self):
        """Let ten seconds pass, and return when the line is written."""
        self._written.get()
        self.now += 10
        self._ticks.put(False)
        # The thread waits again, and the next tick may come.
        self._written.get()
        self._written.put(None)


def lines_of_progress():
    """Return the threads that write lines."""
    return [thread for thread in threading.enumerate() if thread.name == "lines of progress"]


@pytest.mark.usefixtures("has_a_deadline")
def test_a_line_every_ten_seconds_names_the_stages_and_their_public_steps(capsys):
    ticks = Ticks()
    assert SECONDS_BETWEEN_LINES == 10
    with progress_on_stderr(over=ticks, clock=ticks.clock):
        ticks.tick()
        with progress_bar("Fitting teachers", 250) as advance:
            ticks.tick()
            advance(120)
            ticks.tick()
        with progress_bar("Releasing moments", 3), pass_named("Round 1 of 3"), pass_bar(7, "parts") as advance:
            advance(5)
            ticks.tick()
    assert capsys.readouterr() == (
        "",
        "dpensemble: Working (10 s)\n"
        "dpensemble: Fitting teachers, 0 of 250 (10 s)\n"
        "dpensemble: Fitting teachers, 120 of 250 (20 s)\n"
        "dpensemble: Releasing moments, 0 of 3: Round 1 of 3 (10 s)\n",
    )
    assert not lines_of_progress()


@pytest.mark.usefixtures("has_a_deadline")
def test_a_command_that_is_quiet_or_hides_its_work_writes_no_line_of_it(capsys):
    ticks = Ticks()
    with progress_on_stderr(quiet=True, over=ticks, clock=ticks.clock), progress_bar("Fitting teachers", 250):
        assert not lines_of_progress()
    hidden = show_progress(False)
    with progress_on_stderr(over=ticks, clock=ticks.clock), hidden, progress_bar("Fitting teachers", 250):
        ticks.tick()
    assert capsys.readouterr() == ("", "dpensemble: Working (10 s)\n")


@pytest.mark.usefixtures("has_a_deadline")
def test_lines_end_with_an_error_and_survive_a_reader_that_has_gone(monkeypatch):
    def gone(_text):
        raise BrokenPipeError

    def work(ticks):
        with progress_on_stderr(over=ticks, clock=ticks.clock), progress_bar("Reading tables", None):
            ticks.tick()
            ticks.tick()
            raise KeyError

    monkeypatch.setattr(sys.stderr, "write", gone)
    with pytest.raises(KeyError):
        work(Ticks())
    assert not lines_of_progress()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_process_writes_no_lines():
    code = """
import os, threading
from dpensemble._work import progress_bar, progress_on_stderr
with progress_on_stderr(), progress_bar("Fitting teachers", 250) as advance:
    assert threading.active_count() == 2
    child = os.fork()
    if not child:
        advance(1)
        os._exit(threading.active_count())
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
assert threading.active_count() == 1
"""
    ended = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_a_program_without_stderr_works_in_silence(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    with progress_on_stderr("Reading tables"), progress_bar("Fitting teachers", 4) as advance:
        advance(1)
        assert not lines_of_progress()


@contextmanager
def terminal(monkeypatch):
    """Put a terminal in the place of stderr, and yield a function that returns the text on it."""
    master, slave = pty.openpty()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")

    def text():
        os.set_blocking(master, False)
        read = b""
        with suppress(BlockingIOError):
            while part := os.read(master, 4096):
                read += part
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", read.decode())

    with os.fdopen(slave, "w") as stderr, monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", stderr)
        yield text
    os.close(master)


def test_a_terminal_shows_bars_and_leaves_standard_output_alone(monkeypatch, capsys):
    with terminal(monkeypatch) as text, progress_on_stderr():
        with progress_bar("Reading tables", None):
            sys.stdout.write("printed meanwhile\n")
        unknown = text()
        with progress_bar("Fitting teachers", 4) as advance:
            advance(2)
        known = text()
    assert capsys.readouterr() == ("printed meanwhile\n", "")
    assert "Reading tables" in unknown
    # Work of unknown length has no share.
    assert "%" not in unknown
    assert re.search("Fitting teachers .* 50% .*left: ", known)


def test_a_terminal_shows_no_time_left_where_numbers_are_private(monkeypatch):
    counted = passes_counted(public=False)
    with terminal(monkeypatch) as text, progress_on_stderr(), counted:
        with progress_bar("Releasing moments", 3) as advance, pass_bar(1234, "records") as read:
            advance(1)
            read(567)
        shown = text()
    assert "Releasing moments" in shown
    assert "Checking records" in shown
    assert not re.search("left|1,?234|567", shown)


class Recorder:
    """Stands in for bars, and records all that they are given."""

    def __init__(self, _stay):
        self.given = []

    def __enter__(self):
        SHOWN.append(self.given)
        return self

    def __exit__(self, *_error):
        return None

    def add_task(self, title, **facts):
        self.given.append((title, facts))
        return len(self.given)

    def remove_task(self, task):
        self.given.append(("removed", task))

    def advance(self, *steps):
        self.given.append(steps)

    def update(self, *steps, **facts):
        self.given.append((steps, facts))


SHOWN = []


def blocks_of(n, read=lambda: None):
    """Return a reader of a number of records in blocks of 40."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    y = (X[:, 0] > 0).astype(int)

    def blocks():
        for start in range(0, n, 40):
            read()
            yield X[start : start + 40], y[start : start + 40]

    return blocks


def moments_shown(n, read=lambda: None, units=None, **settings):
    """Fit label moments to a number of records, and return what bars are given."""
    SHOWN.clear()
    model = LabelMomentsClassifier(classes=[0, 1], delta=1e-3, rounds=2, insecure_release_seed=0, **settings)
    public = np.random.default_rng(1).normal(size=(40, 2))
    model.fit_blocks(blocks_of(n, read), X_public=public, units=units)
    return list(SHOWN)


def votes_shown(n, **settings):
    """Fit teachers on a number of records, and return what bars are given."""
    SHOWN.clear()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    y = (X[:, 0] > 0).astype(int)
    model = PATEClassifier(classes=[0, 1], n_teachers=5, delta=1e-3, epsilon=20, insecure_release_seed=0, **settings)
    model.fit(X, y, X_public=rng.normal(size=(30, 2)))
    return list(SHOWN)


@pytest.mark.usefixtures("few_synthetic_rows")
def test_bars_show_the_same_for_neighbours_where_numbers_are_private(monkeypatch):
    monkeypatch.setattr(_work, "_bars", Recorder)
    with show_progress():
        # Another record begins another block.
        private = [moments_shown(n, relation="add-or-remove-one") for n in (120, 121)]
        of_units = [moments_shown(n, units=np.minimum(np.arange(n), 119)) for n in (120, 121)]
        public = [moments_shown(n) for n in (120, 121)]
        spent = [votes_shown(n, analysis="until-spent") for n in (120, 121)]
        of_votes = [votes_shown(n, relation="add-or-remove-one") for n in (120, 121)]
    assert private[0] == private[1]
    assert "'left': False" in str(private[0])
    assert "'left': True" not in str(private[0])
    assert of_units[0] == of_units[1]
    assert "121 records" in str(public[1])
    assert "121" not in str(private[1]) + str(of_units[1])
    assert spent[0] == spent[1]
    assert of_votes[0] == of_votes[1]


@pytest.mark.usefixtures("few_synthetic_rows", "has_a_deadline")
@pytest.mark.parametrize("relation", ["add-or-remove-one", "replace-one"])
def test_lines_are_the_same_for_neighbours(capsys, relation):
    written = []
    for n in (120, 121):
        ticks = Ticks()
        with progress_on_stderr(over=ticks, clock=ticks.clock):
            moments_shown(n, ticks.tick, relation=relation)
        written.append({re.sub(r" \(\d+ s\)", "", line) for line in capsys.readouterr().err.splitlines()})
    assert written[0] == written[1]
    assert "dpensemble: Releasing moments, 0 of 2: Round 1 of 2" in written[0]
    assert not re.search("120|121", str(written))


def machine(folder, monkeypatch, **files):
    """Let the files of a folder stand for those in which Linux states memory."""
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr("dpensemble._work._SYSTEM", folder)


MEMINFO = "MemTotal: 9000 kB\nMemAvailable: 4000 kB\nSwapFree: 500 kB\n"


@pytest.mark.parametrize(
    ("files", "available"),
    [
        ({}, None),
        ({"proc__meminfo": "MemFree: 1 kB\n"}, None),
        ({"proc__meminfo": MEMINFO}, 4500 * 1024),
        ({"proc__meminfo": MEMINFO, "proc__self__cgroup": "0::/a/b\n"}, 4500 * 1024),
        # What files hold that are only in memory can be reclaimed, and a group around this one counts as well.
        (
            {
                "proc__meminfo": MEMINFO,
                "proc__self__cgroup": "0::/a/b\n",
                "sys__fs__cgroup__a__b__memory_dot_max": "max\n",
                "sys__fs__cgroup__a__memory_dot_max": "3000000\n",
                "sys__fs__cgroup__a__memory_dot_current": "1000000\n",
                "sys__fs__cgroup__a__memory_dot_stat": "anon 1\ninactive_file 5000\n",
            },
            2005000,
        ),
        (
            {
                "proc__self__cgroup": "4:memory:/a\n1:cpu:/\n",
                "sys__fs__cgroup__memory__a__memory_dot_limit_in_bytes": "300\n",
                "sys__fs__cgroup__memory__a__memory_dot_usage_in_bytes": "400\n",
                "sys__fs__cgroup__memory__a__memory_dot_stat": "total_inactive_file 50\n",
            },
            0,
        ),
    ],
)
def test_available_memory_is_the_least_that_the_system_states(tmp_path, monkeypatch, files, available):
    machine(tmp_path, monkeypatch, **files)
    assert available_memory() == available


def test_memory_that_is_not_known_refuses_nothing(tmp_path, monkeypatch):
    machine(tmp_path, monkeypatch)
    require_memory(2**60, "give fewer rows")
    machine(tmp_path, monkeypatch, proc__meminfo=MEMINFO)
    require_memory(4500 * 1024, "give fewer rows")
    with pytest.raises(MemoryShortageError, match=r"may need up to 0.01 GB of memory, .*: give fewer rows"):
        require_memory(10 * 2**20, "give fewer rows")
