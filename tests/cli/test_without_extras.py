"""A command whose extra is not installed ends with one sentence that names the extra."""

import sys
from contextlib import contextmanager

import pytest

from dpensemble.cli import main

TRAIN = "train --dataset adult --epsilon 1 --out out --ledger ledger.db --data-set people"


class Hidden:
    """A finder that no import of one package gets past."""

    def __init__(self, package):
        self.package = package

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == self.package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@contextmanager
def hidden(package):
    """Hide a package in the block. Afterwards every module of ours is the one that other tests know."""
    before = dict(sys.modules)
    # An import binds a module as an attribute of its package, too.
    ours = {name: vars(module).copy() for name, module in before.items() if name.split(".")[0] == "dpensemble"}
    # Both the hidden package and modules of ours that have imported it are imported again.
    for name in before:
        if name.partition(".")[0] == package or name.startswith("dpensemble.server"):
            del sys.modules[name]
    finders = sys.meta_path
    sys.meta_path = [Hidden(package), *finders]
    try:
        yield
    finally:
        sys.meta_path = finders
        for name in [name for name, module in sys.modules.items() if before.get(name) is not module]:
            parent, _, child = name.rpartition(".")
            if parent in ours:
                vars(before[parent]).pop(child, None)
            del sys.modules[name]
        sys.modules.update(before)
        for name, attributes in ours.items():
            vars(before[name]).update(
                {child: module for child, module in attributes.items() if f"{name}.{child}" in before}
            )


def test_modules_are_afterwards_what_they_were():
    """Otherwise tests that follow would plant faults in modules that no command uses."""
    from dpensemble import server
    from dpensemble.server import store

    with hidden("a package that nobody needs"):
        assert "dpensemble.server.store" not in sys.modules
        from dpensemble.server import store as another
    assert another is not store
    assert sys.modules["dpensemble.server.store"] is store
    assert (sys.modules["dpensemble"].server, server.store) == (server, store)


@pytest.mark.parametrize("package", ["sqlalchemy", "filelock", "cryptography"])
@pytest.mark.parametrize("command", ["ledger create ledger.db", "ledger show ledger.db", TRAIN])
def test_a_ledger_names_its_extra(package, command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with hidden(package):
        assert main(command.split()) == 2
    sentence = f'a ledger needs {package}, which is not installed: run pip install "dpensemble[ledger]".'
    assert capsys.readouterr().err == f"dpensemble: {sentence}\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("package", ["fastapi", "jwt", "prometheus_client", "uvicorn"])
@pytest.mark.parametrize("command", ["serve service.toml", "keys list keys.json"])
def test_the_service_names_its_extra(package, command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with hidden(package):
        assert main(command.split()) == 2
    sentence = f'the service needs {package}, which is not installed: run pip install "dpensemble[service]".'
    assert capsys.readouterr().err == f"dpensemble: {sentence}\n"
