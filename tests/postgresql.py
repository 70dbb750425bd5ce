"""A PostgreSQL server of the tests' own, from Debian's package, which can be stopped and begun again."""

import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path


def programs():
    """Return the folder of the server's programs, or None without a server."""
    places = [Path(shutil.which("initdb") or "/none/initdb"), *Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    found = [place.resolve().parent for place in places if (place.resolve().parent / "pg_ctl").exists()]
    return found[-1] if found else None


class Server:
    """A server on a free port of this machine, in a folder of its own."""

    def __init__(self):
        # Not in pytest's folder, which other users may not enter, and the server refuses to be run by root.
        self.folder, self.programs = Path(tempfile.mkdtemp(prefix="dpensemble-postgresql-")), programs()
        self.user = "postgres" if os.geteuid() == 0 else None
        if self.user:
            shutil.chown(self.folder, self.user)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._run("initdb", "--auth=trust", "--username=postgres", "--no-sync")
        self.start()

    @property
    def address(self):
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def start(self):
        options = f"-p {self.port} -k {self.folder} -h 127.0.0.1"
        self._run("pg_ctl", "-w", "-l", str(self.folder / "log"), "-o", options, "start")

    def stop(self):
        # As it would be by a power cut: what was not on the disk is gone.
        self._run("pg_ctl", "-w", "-m", "immediate", "stop")

    def clear(self):
        """Remove all tables."""
        self._run("psql", "-c", "DROP SCHEMA public CASCADE; CREATE SCHEMA public", to=self.address)

    def run_sql(self, script):
        """Run a file of statements of psql, as the superuser."""
        self._run("psql", "-f", str(script), to=self.address)

    def remove(self):
        self.stop()
        shutil.rmtree(self.folder)

    def _run(self, program, *given, to=None):
        where = ["-D", str(self.folder / "data")] if to is None else ["-q", "-v", "ON_ERROR_STOP=1", to]
        command = [str(self.programs / program), *where, *given]
        # Nothing is piped: the server would keep the pipe open.
        subprocess.run(command, check=True, user=self.user, cwd=self.folder, stdout=subprocess.DEVNULL)
