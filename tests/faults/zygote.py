"""Runs command lines in forked children, each with something that happens at one step of the way to the disk.

Everything is imported once, before there is any other thread. A request is a line of JSON, and so is its answer.
"""

import contextlib
import errno
import io
import json
import os
import signal
import sys
import traceback

import jinja2  # noqa: F401  imported beforehand, for speed
import skops.io  # noqa: F401

from dpensemble.cli import main
from dpensemble.cli import runs as _recover  # noqa: F401
from dpensemble.cli import train as _train  # noqa: F401
from dpensemble.workflow import disk


def happens(what):
    if what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif what == "int":
        os.kill(os.getpid(), signal.SIGINT)
    elif what == "term":
        os.kill(os.getpid(), signal.SIGTERM)
    elif what == "full":
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def child(request):
    for stream, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(request[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), stream)
    steps = []

    def step(name):
        steps.append(name)
        if "steps" in request:
            with open(request["steps"], "a", encoding="utf-8") as file:
                file.write(name + "\n")
        if len(steps) - 1 == request.get("at"):
            happens(request["what"])

    disk.step = step
    if not request.get("exchange", True):
        disk.exchange = lambda one, other: False
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
        signal.signal(number, usual)
    code = main(request["arguments"])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def serve():
    for line in sys.stdin:
        request = json.loads(line)
        if request.get("warm"):
            # Here, so that children find imports, templates and prices as this run leaves them.
            with contextlib.redirect_stdout(io.StringIO()):
                code = main(request["arguments"])
            sys.stdout.write(f"{code}\n")
            sys.stdout.flush()
            continue
        pid = os.fork()
        if pid == 0:
            try:
                child(request)
            except BaseException:
                traceback.print_exc()
                sys.stderr.flush()
                os._exit(99)
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
