"""`scripts/power_cuts.py` finds what a power cut breaks. The script itself runs for an hour, and needs strace."""

import importlib
import random
from pathlib import Path

import pytest

from dpensemble.cli import main
from dpensemble.server import Ledger

OLD, NEW = b"old" * 700, b"new" * 900


@pytest.fixture(scope="module")
def scripts():
    """Return the modules of the script."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parents[1] / "scripts"))
        yield {name: importlib.import_module(name) for name in ("recorded_disk", "power_cut_scenes", "power_cuts")}


def digits(text):
    """Return a text as strace shows it with -xx."""
    return "".join(f"\\x{byte:02x}" for byte in (text if isinstance(text, bytes) else text.encode()))


def record(place, *, is_flushed):
    """Return what strace records of a file that is written beside its place and then moved there."""
    draft, file, folder = (digits(str(path)) for path in (place / ".file.1", place / "file", place))
    data = digits(NEW)
    lines = [
        f'7  openat(AT_FDCWD<{folder}>, "{draft}", O_WRONLY|O_CREAT|O_EXCL|O_CLOEXEC, 0600) = 3<{draft}>',
        f'7  write(3<{draft}>, "{data}", {len(NEW)} <unfinished ...>',
        "8  lseek(9</x>, 0, SEEK_SET) = 0",
        f"7  <... write resumed>) = {len(NEW)}",
        *([f"7  fsync(3<{draft}>) = 0"] if is_flushed else []),
        f'7  rename("{draft}", "{file}") = 0',
        f'7  unlink("{digits(str(place / "absent"))}") = -1 ENOENT (No such file or directory)',
        f'7  openat(AT_FDCWD<{folder}>, "{folder}", O_RDONLY|O_CLOEXEC) = 4<{folder}>',
        f"7  fsync(4<{folder}>) = 0",
        f'7  write(1<{digits("/output")}>, "{digits("done")}", 4) = 4',
    ]
    return "\n".join(lines)


def left(scripts, tmp_path, *, is_flushed, number):
    """Return what a power cut at a random moment leaves of the file, and whether the program had ended."""
    place, dice, disks = tmp_path / "place", random.Random(number), scripts["recorded_disk"]
    operations = disks.operations(record(place, is_flushed=is_flushed), place, Path("/output"))
    disk = disks.Disk(place)
    for operation in operations[: dice.randint(0, len(operations))]:
        disk.apply(operation)
    disk.cut(dice)
    disk.write_to(tmp_path / f"left-{number}")
    return (tmp_path / f"left-{number}" / "file").read_bytes(), disk.is_reported


@pytest.fixture
def place(tmp_path):
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / "file").write_bytes(OLD)


@pytest.mark.usefixtures("place")
def test_a_flushed_file_is_old_or_new_after_a_power_cut(scripts, tmp_path):
    found = {left(scripts, tmp_path, is_flushed=True, number=number) for number in range(60)}
    assert found == {(OLD, False), (NEW, False), (NEW, True)}


@pytest.mark.usefixtures("place")
def test_a_file_that_is_not_flushed_is_torn_at_a_sector(scripts, tmp_path):
    found = {left(scripts, tmp_path, is_flushed=False, number=number)[0] for number in range(60)}
    torn = found - {OLD, NEW, b""}
    assert torn
    for content in torn:
        sectors = range(0, len(content), 512)
        assert all(content[at : at + 512] in (NEW[at : at + 512], bytes(512)[: len(content) - at]) for at in sectors)


@pytest.fixture
def scene(scripts, tmp_path, monkeypatch):
    """Return the scene of a charge, with the ledger before it in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPENSEMBLE_STATE", str(tmp_path / "state"))
    Path("books").mkdir()
    Ledger.create("books/ledger.db").open_account("people", epsilon=9, delta=1e-5)
    return scripts["power_cut_scenes"].scenes()["ledger charge"]


def test_a_confirmed_charge_that_is_missing_is_found(scripts, scene):
    read, check = scripts["power_cut_scenes"].Facts.read, scripts["power_cuts"].Check
    before = read(scene)
    lost = Path("books/ledger.db").read_bytes()
    assert main(scene.command.replace("table", "sums").split()) == 0
    after = read(scene)
    assert check(scene, before, after, None, is_reported=True).run() == 0
    with pytest.raises(scripts["power_cuts"].ViolationError, match="MORE: "):
        check(scene, before, after, None, is_reported=True).run()
    Path("books/ledger.db").write_bytes(lost)
    with pytest.raises(scripts["power_cuts"].ViolationError, match="LOST: "):
        check(scene, after, after, None, is_reported=True).run()


def test_half_a_file_is_found(scripts, scene):
    scene = scripts["power_cut_scenes"].Scene("", "", files=("labels.csv",), after=(scene.command,))
    facts, check = scripts["power_cut_scenes"].Facts, scripts["power_cuts"].Check
    entries = facts.read(scene).entries
    before, after = (facts(entries, None, {"labels.csv": content}) for content in (None, b"row,label\n0,1\n"))
    Path("labels.csv").write_bytes(b"row,label\n0")
    with pytest.raises(scripts["power_cuts"].ViolationError, match="HALF: "):
        check(scene, before, after, None, is_reported=False).kept()
