"""Files and folders: what is written reaches the disk, and what a stranger may have written is read within limits.

A file that is flushed is lost with the name of a folder above it, so names of folders are brought to the disk as well.
The user's state folder holds a secret key that marks files of this user's runs, and notes about runs that ended.

Files, and JSON in them, are read within limits of size, depth and length of numbers. A reader names the error for its
own file. The words of a reason quote nothing that a file holds. Bytes of text that are not UTF-8 are read separately,
so that one odd record changes no other. A pipe can be read once, so its content stays in memory as long as its reader
needs it, and never reaches the disk.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import hashlib
import hmac
import io
import json
import math
import os
import secrets
import select
import stat
import sys
import zipfile
from collections.abc import Callable, Collection, Iterator
from io import TextIOWrapper
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias, cast

from dpensemble.errors import FileError

if TYPE_CHECKING:
    import lzma

#: Handler of errors for ``bytes.decode`` and ``open``, which reads such bytes as Windows writes them.
AS_WINDOWS = "dpensemble-windows"
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# Longest line, and bytes that are read together.
_LONGEST_LINE, _CHUNK = 64 * 10**6, 2**16


def make_folder(path: Path, mode: int = 0o777) -> None:
    """Make a folder and those above it where they are missing, and bring their names to the disk.

    `mode` is for folders that are missing.
    """
    missing = [path]
    while not missing[-1].parent.exists() and missing[-1] != missing[-1].parent:
        missing.append(missing[-1].parent)
    for folder in reversed(missing):
        folder.mkdir(mode, exist_ok=True)
        # Also of an existing folder, since the process that made the folder may have been killed before this.
        with contextlib.suppress(PermissionError):
            sync_folder(folder.parent)


def sync_folder(path: Path) -> None:
    """Bring the names in a folder to the disk, if the system can."""
    if sys.platform == "win32":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        # Some network file systems cannot, and keep names in order themselves.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(handle)


ENVIRONMENT_VARIABLE = "DPENSEMBLE_STATE"
_KEY, _KEY_BYTES, _NOTE_BYTES, _OWN_FILE, _OWN_FOLDER = "journal.key", 32, 1_000, 0o600, 0o700
#: Flag of `os.open` that refuses a link in the place of a file, where the system has links.
NO_LINK = 0 if sys.platform == "win32" else os.O_NOFOLLOW
# Notes that never change, in a folder of the state folder.
_NOTES = "finished-runs"
_FOR_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def state_home() -> Path:
    """Return the folder for files that must outlive a ledger's file or a run's folder."""
    named = os.environ.get(ENVIRONMENT_VARIABLE)
    if named:
        return Path(named).absolute()
    if sys.platform == "win32":
        parent, inside = os.environ.get("LOCALAPPDATA", ""), Path("AppData/Local")
    elif sys.platform == "darwin":
        parent, inside = "", Path("Library/Application Support")
    else:
        parent, inside = os.environ.get("XDG_STATE_HOME", ""), Path(".local/state")
    home = Path(parent) if Path(parent).is_absolute() else Path.home() / inside
    return home / "dpensemble"


def signature_of(content: bytes) -> str:
    """Return a signature of a file's content, or an empty text if the state folder cannot hold the key."""
    key = _key(make=True)
    return "" if key is None else _signed(key, content)


def is_signature_of(signature: str, content: bytes) -> bool:
    """Return whether `signature_of` returned this signature for this content, with the key of this state folder."""
    key = _key(make=False)
    return key is not None and hmac.compare_digest(signature.encode(), _signed(key, content).encode())


def note_of(name: str) -> str | None:
    """Return what the state folder notes under a name, or None if it notes nothing."""
    try:
        handle = os.open(_note_path(name), os.O_RDONLY | NO_LINK)
    except (OSError, RuntimeError) as error:
        if isinstance(error, FileNotFoundError) or _key(make=False) is None:
            return None
        raise
    with os.fdopen(handle, "rb") as file:
        return file.read(_NOTE_BYTES).decode(errors="replace")


def noted_once(name: str, content: str) -> str:
    """Note `content` on the disk unless there is a note under this name, and return the note, which never changes.

    Without a key, nothing is noted, since this user's runs sign nothing either.
    """
    if _key(make=False) is None:
        return content
    path = _note_path(name)
    if not path.exists():
        _write_once(path, content.encode())
    # Also a note of a process that was killed before this.
    sync_folder(path.parent)
    return note_of(name) or ""


def _note_path(name: str) -> Path:
    return state_home() / _NOTES / hashlib.sha256(name.encode()).hexdigest()


def _signed(key: bytes, content: bytes) -> str:
    return hmac.new(key, content, hashlib.sha256).hexdigest()


def _key(*, make: bool) -> bytes | None:
    """Return the key, or None if there is none that only this user can read. With `make`, create a missing key."""
    try:
        path = state_home() / _KEY
        if make and not os.path.lexists(path):
            _write_once(path, secrets.token_bytes(_KEY_BYTES))
        handle = os.open(path, os.O_RDONLY | NO_LINK)
        with os.fdopen(handle, "rb") as file:
            status = os.fstat(file.fileno())
            if sys.platform != "win32" and (status.st_uid != os.geteuid() or status.st_mode & _FOR_OTHERS):
                return None
            key = file.read(_KEY_BYTES + 1)
    except (OSError, RuntimeError):
        # A home folder that cannot be determined is a RuntimeError.
        return None
    return key if len(key) == _KEY_BYTES else None


def _write_once(path: Path, content: bytes) -> None:
    """Write a new file to the disk. It appears with its whole content, and never replaces another process's file."""
    make_folder(path.parent, _OWN_FOLDER)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWN_FILE), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, path)
        except FileExistsError:
            return
        except OSError:
            # Some file systems have no hard links.
            if not os.path.lexists(path):
                draft.rename(path)
        # A journal whose key is lost is not trusted, and a run whose note is lost could end again.
        sync_folder(path.parent)
    finally:
        draft.unlink(missing_ok=True)


#: Most bytes of a file of a run, and of JSON, whose values take about twenty times as much memory.
LARGEST_FILE, LARGEST_JSON = 10**9, 64 * 10**6
if sys.platform == "win32":
    _READ = os.O_RDONLY | os.O_BINARY
else:
    # A pipe without a writer would never open.
    _READ = os.O_RDONLY | os.O_NONBLOCK
# Nested lists and objects. Whole numbers of this many digits are also floats.
_DEEPEST, _LONGEST = 100, 300
#: A value of JSON, which its reader checks.
JSON: TypeAlias = Any
_TYPES = (bool, int, float, str, type(None))


class UnfitJSONError(ValueError):
    """JSON that cannot be read. The text states the reason and quotes nothing."""


def file_bytes(path: Path | str, *, links: bool = False, largest: int = LARGEST_FILE) -> bytes:
    """Return the content of a regular file that is at most `largest` bytes long.

    A link in the place of the file is refused, unless `links`. What is opened is what is checked.

    Raises
    ------
    OSError
        If the file is missing, cannot be read, is a link or special, or is too large. `strerror` states the reason.
    """
    if not links and os.path.islink(path):
        raise OSError(0, "it is a link")
    handle = os.open(path, _READ | (0 if links else NO_LINK))
    try:
        status = os.fstat(handle)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(0, "it is a folder")
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "it is not a regular file")
        if status.st_size > largest:
            raise OSError(0, f"it is larger than {largest / 10**6:,.0f} MB")
        with os.fdopen(handle, "rb", closefd=False) as file:
            content = file.read(status.st_size + 1)
        if len(content) > status.st_size:
            raise OSError(0, "it was changed while it was read")
        return content
    finally:
        os.close(handle)


def read_json(
    path: Path | str,
    failed: Callable[[str], Exception],
    *,
    links: bool = False,
    special_numbers: bool = False,
) -> JSON:
    """Return the value in a JSON file, or raise ``failed(reason)``.

    `parse_json` states what is refused. A missing file raises `FileNotFoundError`, for readers that need not have it.
    """
    try:
        return parse_json(file_bytes(path, links=links, largest=LARGEST_JSON), special_numbers=special_numbers)
    except FileNotFoundError:
        raise
    except OSError as error:
        reason = error.strerror or type(error).__name__
    except UnfitJSONError as error:
        reason = str(error)
    raise failed(reason) from None


def parse_json(
    content: bytes | str,
    *,
    special_numbers: bool = False,
    pairs: Callable[[list[tuple[str, JSON]]], dict[str, JSON]] | None = None,
) -> JSON:
    """Return the value of JSON in UTF-8, without names that come twice, deep nesting, and very long whole numbers.

    `special_numbers` allows NaN and infinity, as records of earlier versions have them. `pairs` makes an object from
    its names and values.

    Raises
    ------
    UnfitJSONError
        If the content is anything else.
    """
    more: dict[str, JSON] = {} if special_numbers else {"parse_float": _finite, "parse_constant": _finite}
    try:
        text = content if isinstance(content, str) else content.decode("utf-8")
        value = json.loads(text, object_pairs_hook=pairs or _each_once, parse_int=_whole, **more)
    except UnfitJSONError:
        raise
    except UnicodeDecodeError:
        raise UnfitJSONError("it is not in UTF-8") from None
    except json.JSONDecodeError:
        raise UnfitJSONError("it is not JSON") from None
    except RecursionError:
        raise UnfitJSONError("its JSON is nested too deeply") from None
    except MemoryError:
        raise UnfitJSONError("it needs more memory than there is") from None
    _require_shallow(value)
    return value


def _require_shallow(value: JSON) -> None:
    """Raise for nesting that a later recursion, such as writing the value, could fail at."""
    level, depth = [value], 0
    while level:
        level = [
            one
            for parent in level
            if not isinstance(parent, _TYPES)
            for one in (parent.values() if isinstance(parent, dict) else parent)
        ]
        depth += 1
        if depth > _DEEPEST + 1:
            raise UnfitJSONError("its JSON is nested too deeply")


def _each_once(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise UnfitJSONError("its JSON names an entry twice")
    return values


def _whole(digits: str) -> int:
    if len(digits) > _LONGEST:
        raise UnfitJSONError("its JSON holds a whole number that is too long")
    return int(digits)


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise UnfitJSONError("its JSON holds a number that is not finite")
    return value


def _windows(error: UnicodeError) -> tuple[str, int]:
    """Decode bytes that are not UTF-8 as Windows writes them (cp1252), each separately. Other encodings lose them."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    if error.encoding.lower() not in ("utf-8", "utf8"):
        return "\N{REPLACEMENT CHARACTER}", error.end
    odd = error.object[error.start : error.end]
    return "".join(bytes([byte]).decode("cp1252", errors="replace") for byte in odd), error.end


codecs.register_error(AS_WINDOWS, _windows)


@contextlib.contextmanager
def text_file(path: Path, endings: Collection[str]) -> Iterator[TextIOWrapper]:
    """Open a table in lines of text, packed or not, in the encoding that its first bytes show.

    An archive must hold one file with one of these endings. Bytes that are not UTF-8 are read as Windows writes them.
    """
    with _binary(path, endings) as start:
        first = start.read(4)
    encoding = next((name for mark, name in _BOMS if first.startswith(mark)), "utf-8")
    if encoding == "utf-8" and b"\0" in first:
        raise FileError(f"{path} cannot be read: it is not in UTF-8; save it as UTF-8.")
    with (
        _binary(path, endings) as file,
        TextIOWrapper(
            io.BufferedReader(_ShortLines(file, path, encoding), _CHUNK), encoding, errors=AS_WINDOWS, newline=""
        ) as text,
    ):
        yield text


class _ShortLines(io.RawIOBase):
    """A file with short lines, so that a small archive cannot fill the memory with one line."""

    def __init__(self, file: IO[bytes], path: Path, encoding: str) -> None:
        self._file, self._path, self._end, self._line = file, path, 0, 0
        width = {"utf-16": 2, "utf-32": 4}.get(encoding, 1)
        self._marks = [sign + bytes(width - 1) for sign in (b"\n", b"\r")]
        self._marks += [mark[::-1] for mark in self._marks if width > 1]

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        """Read the next bytes, or raise if the last line is too long."""
        part = self._file.read(len(buffer))
        buffer[: len(part)] = part
        last = max(self._last(part, mark) for mark in self._marks)
        if last >= 0:
            self._line = self._end + last
        self._end += len(part)
        if self._end - self._line > _LONGEST_LINE:
            raise FileError(
                f"{self._path} cannot be read: it has a line of more than {_LONGEST_LINE / 10**6:.0f} MB; end each "
                "record with a line break."
            )
        return len(part)

    def _last(self, part: bytes, mark: bytes) -> int:
        """Return the last place of a mark that is a whole character, or -1."""
        place = part.rfind(mark)
        while place >= 0 and (self._end + place) % len(mark):
            place = part.rfind(mark, 0, place + len(mark) - 1)
        return place


@contextlib.contextmanager
def _binary(path: Path, endings: Collection[str]) -> Iterator[IO[bytes]]:
    outer = path.suffix.lower()
    if is_pipe(path):
        content = pipe_bytes(path)
        if content.startswith(_NOT_TEXT):
            raise FileError(f"{path} cannot be read: only CSV comes through a pipe; give the file itself.")
        yield io.BytesIO(content)
    elif outer == ".zip":
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if Path(name).suffix.lower() in endings and name[:2] != "__"]
            if len(names) != 1:
                raise FileError(f"{path} holds {len(names)} CSV files: put one table into it.")
            with archive.open(names[0]) as file:
                yield file
    else:
        with _UNPACKED.get(outer, Path.open)(path, "rb") as file:
            yield file


# Beginnings of files in Parquet and Arrow, and of packed files and workbooks.
_NOT_TEXT = (
    b"PAR1",
    b"ARROW1",
    b"PK\x03\x04",
    b"\x1f\x8b",
    b"BZh",
    b"\xfd7zXZ",
    b"\x28\xb5\x2f\xfd",
    b"\xd0\xcf\x11\xe0",
)
# Most memory of the window of an xz file. The best compression of xz has 64 MB.
_LARGEST_WINDOW = 2**28


# Each imports its module when it is called, since a plan needs none of them.
def _gzip(path: Path, mode: str) -> IO[bytes]:
    import gzip  # noqa: PLC0415

    return gzip.open(path, mode)  # type: ignore[return-value]


def _bz2(path: Path, mode: str) -> IO[bytes]:
    import bz2  # noqa: PLC0415

    return bz2.open(path, mode)  # type: ignore[return-value]


def _xz(path: Path, mode: str) -> IO[bytes]:
    return cast(IO[bytes], io.BufferedReader(_XZFile(path.open(mode)), _CHUNK))


def _zstd(path: Path, _mode: str) -> IO[bytes]:
    import pyarrow as pa  # noqa: PLC0415

    return cast(IO[bytes], pa.input_stream(str(path), compression="zstd"))


_UNPACKED: dict[str, Callable[[Path, str], IO[bytes]]] = {".gz": _gzip, ".bz2": _bz2, ".xz": _xz, ".zst": _zstd}


class _XZFile(io.RawIOBase):
    """An xz file of one or several streams, which may not ask for much memory."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._end, self._any, self._rest = file, True, False, b""
        self._decompressor = self._of_one_stream()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        """Unpack the next bytes."""
        while True:
            packed = self._rest or (self._file.read(_CHUNK) if self._end or self._decompressor.needs_input else b"")
            self._rest = b""
            if self._end:
                # Streams may be followed by zeros.
                packed = packed.lstrip(b"\0") if self._any else packed
                if not packed:
                    return 0
                self._decompressor = self._of_one_stream()
                self._end, self._any = False, True
            elif not packed and self._decompressor.needs_input:
                raise EOFError
            part = self._decompressor.decompress(packed, len(buffer))
            if self._decompressor.eof:
                self._end, self._rest = True, self._decompressor.unused_data
            if part:
                buffer[: len(part)] = part
                return len(part)

    @staticmethod
    def _of_one_stream() -> lzma.LZMADecompressor:
        import lzma  # noqa: PLC0415

        return lzma.LZMADecompressor(lzma.FORMAT_XZ, _LARGEST_WINDOW)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()


#: What stands for standard input in place of a file.
STANDARD_INPUT = "-"
# Most bytes of a pipe.
_LARGEST_PIPE = 8 * 10**9
# How often, and for how many seconds, a pipe is watched for a program that writes.
_LOOKS, _PAUSE = 10, 0.1
# Contents of pipes by path, while a reader keeps them.
_pipes: dict[str, bytes] | None = None


def is_pipe(path: Path | str) -> bool:
    """Return whether a path can be read only once: standard input (``-``), a pipe, or a device."""
    text = str(path)
    if text in (STANDARD_INPUT, "/dev/stdin") or text.startswith(("/dev/fd/", "/proc/self/fd/")):
        return True
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISCHR(mode)


@contextlib.contextmanager
def pipes_kept() -> Iterator[None]:
    """Keep the content of each pipe in memory until the outermost such block ends, so that it can be read again."""
    global _pipes  # noqa: PLW0603
    if _pipes is not None:
        yield
        return
    _pipes = {}
    try:
        yield
    finally:
        _pipes = None


def pipe_bytes(path: Path | str, largest: int = _LARGEST_PIPE) -> bytes:
    """Return the whole content of a pipe, or raise `OSError` if it is larger."""
    kept = {} if _pipes is None else _pipes
    if str(path) not in kept:
        kept[str(path)] = _read_pipe(str(path), largest)
    if len(kept[str(path)]) > largest:
        raise OSError(0, f"it is larger than {largest / 10**6:,.0f} MB")
    return kept[str(path)]


def _first_of_pipe(pipe: int) -> bytes:
    """Return the first byte of a pipe that was opened without blocking, or nothing if a program is about to write.

    Raises
    ------
    OSError
        If no program opens the pipe to write.
    """
    for _ in range(_LOOKS):
        # Content, or the end of a pipe that a program has closed.
        if select.select([pipe], [], [], _PAUSE)[0]:
            return b""
        try:
            start = os.read(pipe, 1)
        except BlockingIOError:
            return b""
        if start:
            return start
    raise OSError(0, "no program writes into the pipe")


def _read_pipe(path: str, largest: int) -> bytes:
    if path != STANDARD_INPUT:
        # A named pipe without a writer would never open.
        with os.fdopen(os.open(path, _READ), "rb") as file:
            start = _first_of_pipe(file.fileno()) if stat.S_ISFIFO(os.fstat(file.fileno()).st_mode) else b""
            if sys.platform != "win32":
                os.set_blocking(file.fileno(), True)
            return start + file.read(largest + 1 - len(start))
    if sys.stdin is None:
        raise OSError(0, "there is no standard input")
    content: bytes = sys.stdin.buffer.read(largest + 1)
    return content
