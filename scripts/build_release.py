"""Build what a release publishes, and use each file as a stranger would.

Usage: ``python scripts/build_release.py FOLDER [PYTHON ...]``. The folder gets the sdist, the wheel, an SBOM in the
CycloneDX format, and ``SHA256SUMS``. Wheel and sdist are then installed in fresh environments of each PYTHON outside
the tree, where they plan, train and verify. Needs Python, pip and git. The tools of the build go to an environment of
their own, which is removed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from check_wheel import ROOT, output, use

_TOOLS = ("build>=1.2", "cyclonedx-bom>=5")


def environment(python: str | Path, folder: Path) -> Path:
    """Make an environment, and return its folder of programs."""
    output(folder.parent, python, "-m", "venv", folder)
    return folder / ("Scripts" if os.name == "nt" else "bin")


def build(target: Path, scratch: Path) -> tuple[Path, Path]:
    """Build sdist and wheel of a clean copy of the last commit, and return their paths."""
    tree, tools = scratch / "tree", environment(sys.executable, scratch / "tools")
    output(ROOT, "git", "clone", "--quiet", "--no-hardlinks", ROOT, tree)
    # Two builds of one commit have the same bytes.
    os.environ["SOURCE_DATE_EPOCH"] = output(tree, "git", "log", "-1", "--format=%ct").strip()
    output(scratch, tools / "python", "-m", "pip", "install", "--quiet", *_TOOLS)
    # The wheel is built from the sdist, so that the sdist is complete.
    output(tree, tools / "python", "-m", "build", "--outdir", target, tree)
    (sdist,), (wheel,) = target.glob("dpensemble-*.tar.gz"), target.glob("dpensemble-*.whl")
    return sdist, wheel


def bill_of_materials(wheel: Path, scratch: Path) -> Path:
    """Write what the wheel needs, in the versions that are installed beside it here, and return the path."""
    programs = environment(sys.executable, scratch / "inside")
    output(scratch, programs / "python", "-m", "pip", "install", "--quiet", wheel)
    path = wheel.parent / "sbom.cdx.json"
    output(
        scratch,
        scratch / "tools" / programs.name / "cyclonedx-py",
        *("environment", "--output-reproducible", "--pyproject", ROOT / "pyproject.toml"),
        *("--mc-type", "library", "--output-file", path, programs / "python"),
    )
    return path


def checksums(target: Path) -> None:
    """Write the SHA-256 digest of each file, as ``sha256sum --check`` reads them."""
    files = sorted(path for path in target.iterdir() if path.name != "SHA256SUMS")
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (target / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


def main(target: Path, pythons: list[str]) -> None:
    """Build into an empty folder, and try each file with each Python."""
    if target.exists() and any(target.iterdir()):
        sys.exit(f"{target} is not empty: remove it first.")
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        scratch = Path(temporary).resolve()
        sdist, wheel = build(target, scratch)
        bill_of_materials(wheel, scratch)
        checksums(target)
        for python in pythons:
            for file in (wheel, sdist):
                fresh = scratch / "fresh"
                programs = environment(python, fresh)
                use(file, programs, scratch)
                version = output(scratch, programs / "python", "--version").strip()
                print(f"{file.name} installs, plans, trains and verifies with {version}.", flush=True)
                shutil.rmtree(fresh)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    try:
        main(Path(sys.argv[1]).resolve(), sys.argv[2:] or [sys.executable])
    except subprocess.CalledProcessError as error:
        sys.exit(f"{error.cmd[0]} ended with exit code {error.returncode}.")
