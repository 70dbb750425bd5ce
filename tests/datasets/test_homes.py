import os
import sys
from pathlib import Path

import pytest

from dpensemble.datasets import homes
from dpensemble.datasets.homes import ENVIRONMENT_VARIABLE, named_home, user_cache
from dpensemble.errors import FileError, InvalidParameterError


def test_the_argument_comes_before_the_environment(tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, str(tmp_path / "b"))
    assert named_home(tmp_path / "a") == tmp_path / "a"
    assert named_home(str(tmp_path / "a")) == tmp_path / "a"
    assert named_home(None) == tmp_path / "b"


@pytest.mark.parametrize("value", [None, ""])
def test_nothing_need_be_named(monkeypatch, value):
    if value is None:
        monkeypatch.delenv(ENVIRONMENT_VARIABLE, raising=False)
    else:
        monkeypatch.setenv(ENVIRONMENT_VARIABLE, value)
    assert named_home(None) is None


def test_the_tilde_is_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    (tmp_path / "data").mkdir()
    assert named_home("~/data") == tmp_path / "data"
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, "~/data")
    assert named_home(None) == tmp_path / "data"


def test_what_is_named_must_be_a_folder(tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"")
    for value in (tmp_path / "none", tmp_path / "file", "~nobody-of-this-name/data", 5, True):
        with pytest.raises(InvalidParameterError, match=r"data_home='.*' is not a folder: give the folder that holds"):
            named_home(value)
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, str(tmp_path / "none"))
    with pytest.raises(InvalidParameterError, match=r"DPENSEMBLE_DATA='.*none' is not a folder"):
        named_home(None)


@pytest.mark.parametrize(
    ("platform", "variable", "inside"),
    [
        ("linux", "XDG_CACHE_HOME", ".cache"),
        ("freebsd14", "XDG_CACHE_HOME", ".cache"),
        ("win32", "LOCALAPPDATA", "AppData/Local"),
        ("darwin", None, "Library/Caches"),
    ],
)
def test_each_platform_has_its_place_for_caches(tmp_path, monkeypatch, platform, variable, inside):
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(os.path, "expanduser", lambda _: str(tmp_path))
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    usual = tmp_path / inside / "dpensemble"
    assert user_cache() == usual
    if variable is not None:
        monkeypatch.setenv(variable, str(tmp_path / "elsewhere"))
        assert user_cache() == tmp_path / "elsewhere" / "dpensemble"
        monkeypatch.setenv(variable, "relative")
        assert user_cache() == usual


def test_a_user_without_a_home_is_told_what_to_do(monkeypatch):
    monkeypatch.setattr(homes.os.path, "expanduser", lambda path: path)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    with pytest.raises(FileError, match="no home folder to store downloads in: name a folder that holds"):
        user_cache()
    assert not Path("~").exists()
