"""Ctrl-C before anything is imported ends the command, and leaves programs that import the library alone."""

import signal
import subprocess
import sys

import pytest

from dpensemble import _early_interrupts


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("/usr/bin/dpensemble", ["python", "/usr/bin/dpensemble", "train"], True),
        ("-m", ["python", "-X", "dev", "-m", "dpensemble", "plan"], True),
        ("-m", ["python", "-m", "pytest", "dpensemble"], False),
        ("service.py", ["python", "service.py"], False),
        ("-c", ["python", "-c", "import dpensemble", "-m"], False),
    ],
)
def test_only_the_command_itself_is_meant(monkeypatch, name, given, expected):
    monkeypatch.setattr(sys, "argv", [name])
    monkeypatch.setattr(sys, "orig_argv", given)
    assert _early_interrupts.is_the_command() is expected


def run(code):
    # A shell starts background commands with interrupts ignored, and these tests may be part of one.
    heeded = f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler); {code}"
    return subprocess.run([sys.executable, "-c", heeded], capture_output=True, text=True, check=False)


INTERRUPT = (
    "import signal; from dpensemble._early_interrupts import heed_interrupts; heed_interrupts(); "
    "signal.raise_signal(signal.SIGINT)"
)


def test_an_interrupt_ends_with_one_sentence():
    found = run(INTERRUPT)
    assert (found.returncode, found.stdout) == (130, "")
    assert found.stderr == "dpensemble: interrupted; nothing was written.\n"


def test_who_imports_the_library_keeps_handlers_and_ignored_interrupts():
    found = run("import signal, dpensemble; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)")
    assert found.stdout == "True\n"
    ignored = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); " + INTERRUPT + "; print('went on')"
    assert run(ignored).stdout == "went on\n"


def test_the_command_takes_over_the_first_handler():
    from dpensemble.cli.interrupts import Interrupts

    before = signal.getsignal(signal.SIGINT)
    try:
        signal.signal(signal.SIGINT, _early_interrupts.end_at_once)
        ending = Interrupts()
        with ending.listening(for_good=False):
            assert signal.getsignal(signal.SIGINT) == ending._handle_signal
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
