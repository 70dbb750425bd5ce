"""The stored list of JSON keys is what the commands print."""

import json
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "json_keys.py"))
PAGES = runpy.run_path(str(ROOT / "scripts" / "site_pages.py"))
STORED = json.loads((ROOT / "docs" / "json-keys.json").read_text(encoding="utf-8"))
#: Sections whose types depend on the machine, such as the version of Java.
OF_THE_MACHINE = ("doctor",)


def without_types_of_the_machine(sections):
    return {name: sorted(keys) if name in OF_THE_MACHINE else keys for name, keys in sections.items()}


def test_keys_of_fast_commands_are_as_stored():
    wanted = ("keys create", "keys list", "keys revoke", "recover")
    found = SCRIPT["found"](lambda section: section in wanted)
    assert sorted(found) == sorted(wanted)
    assert found == {name: STORED[name] for name in wanted}


def test_all_keys_are_as_stored():
    found = SCRIPT["found"]()
    assert without_types_of_the_machine(found) == without_types_of_the_machine(STORED), "run scripts/json_keys.py"


def test_every_command_with_json_has_a_section():
    commands = {" ".join(path) for path, text in PAGES["commands"]() if re.search(r"(?m)^  --json ", text)}
    assert len(commands) > 40
    sections = {section.split(" --")[0] for section in STORED}
    # Methods of train and plan share a section, unless they have one of their own.
    listed = {command for command in commands if command in sections or command.split()[0] in sections}
    assert commands - listed == SCRIPT["FOR_READING"]
    assert {name for name in sections if not name.endswith(".json")} <= commands | {"train", "plan"}


@pytest.mark.parametrize(
    ("document", "keys"),
    [
        ({"a": {"b": 1}, "c": [True]}, {"a.b": "number", "c": "list of true or false"}),
        ([{"a": None}, {"a": "x"}], {"[].a": "text or null"}),
        ({"share": {"value": 1, "low": 0, "high": 2}}, {"share": "value, low, high"}),
        ({"data": {"answers": {"no": 0.5, "yes": 0.5}}}, {"data.answers.CLASS": "number"}),
        ({"versions": {"numpy": "2"}}, {"versions.PACKAGE": "text"}),
        ({"a": [[1], [2]], "b": []}, {"a": "list of lists", "b": "list"}),
    ],
)
def test_keys_of_a_document(document, keys):
    assert SCRIPT["merged"]([document]) == keys


def test_types_of_several_documents_are_put_together():
    assert SCRIPT["merged"]([{"a": None, "b": []}, {"a": 1, "b": ["x"]}]) == {
        "a": "number or null",
        "b": "list of text",
    }


def rows(page, section):
    return dict(re.findall(r"(?m)^\| `([^`]+)` \| (.+) \|$", page.split(f"## {section}\n")[1].split("\n## ")[0]))


def test_the_page_has_every_key():
    page = PAGES["keys_page"]()
    for section, keys in STORED.items():
        shown = rows(page, section)
        if section == "report":
            assert set(keys) - {"page"} == set(STORED["train"]) - {"out"}
            assert shown == {"page": "text"}
            continue
        left_out = {key for key in keys if key.startswith("data.test_quality.")}
        assert set(keys) - left_out == set(shown) - {"data.test_quality"}
        assert ("data.test_quality" in shown) == bool(left_out)
        assert {key.replace("test_quality", "released_score") for key in left_out} <= set(shown)
