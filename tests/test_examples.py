"""The gallery's examples run as they stand, draw their pictures, and become notebooks."""

import importlib.util
import json
import runpy
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.py") if path.read_text().startswith("# %%"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_draws(path, tmp_path, monkeypatch, capsys):
    # In this process, which has imported everything already.
    monkeypatch.syspath_prepend(str(path.parent))
    monkeypatch.setattr(sys, "argv", [path.name, str(tmp_path)])
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out
    picture = tmp_path / f"{path.stem.replace('_', '-')}.svg"
    assert ElementTree.fromstring(picture.read_text()).tag.endswith("svg")  # noqa: S314 - of our own


def loaded(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pictures_of_a_notebook_go_beside_it(monkeypatch):
    """The kernel of a notebook is a program with arguments of its own."""
    place = loaded(ROOT / "examples" / "pictures.py").place
    for arguments, expected in (
        (["ipykernel_launcher.py", "-f", "/run/kernel.json"], "images.svg"),
        (["images.py"], "images.svg"),
        (["images.py", "docs"], "docs/images.svg"),
    ):
        monkeypatch.setattr(sys, "argv", arguments)
        assert place("images") == Path(expected)


def test_the_gallery_shows_every_example_with_its_picture():
    page = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    assert len(EXAMPLES) == 5
    for path in EXAMPLES:
        picture = f"images/{path.stem.replace('_', '-')}.svg"
        assert f"examples/{path.name}" in page
        assert picture in page
        assert (ROOT / "docs" / picture).stat().st_size < 40_000


def test_notebooks_have_the_cells_of_the_scripts(tmp_path):
    made = loaded(ROOT / "scripts" / "make_notebooks.py").main(tmp_path)
    assert [path.stem for path in made] == [path.stem for path in EXAMPLES]
    assert (tmp_path / "pictures.py").exists()
    for path, example in zip(made, EXAMPLES, strict=True):
        cells = json.loads(path.read_text())["cells"]
        assert cells[0]["cell_type"] == "markdown"
        assert cells[0]["source"][0].startswith("# ")
        code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
        compile(code, path.name, "exec")
        assert code.count("pictures.") == example.read_text().count("pictures.")
