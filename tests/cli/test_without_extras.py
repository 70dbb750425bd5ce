"""A command whose extra is not installed ends with one sentence that names the extra."""

import sys

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


@pytest.fixture
def hide(monkeypatch):
    def hide(package):
        # Both the hidden package and modules of ours that have imported it are imported again.
        ours = ("dpensemble.ledger", "dpensemble.service", "dpensemble.cli.ledger", "dpensemble.cli.serve")
        for name in list(sys.modules):
            if name.partition(".")[0] == package or name.startswith((*ours, "dpensemble.cli.keys")):
                monkeypatch.delitem(sys.modules, name)
        monkeypatch.setattr(sys, "meta_path", [Hidden(package), *sys.meta_path])

    return hide


@pytest.mark.parametrize("package", ["sqlalchemy", "filelock", "cryptography"])
@pytest.mark.parametrize("command", ["ledger create ledger.db", "ledger show ledger.db", TRAIN])
def test_a_ledger_names_its_extra(package, command, hide, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    hide(package)
    assert main(command.split()) == 2
    sentence = f'a ledger needs {package}, which is not installed: run pip install "dpensemble[ledger]".'
    assert capsys.readouterr().err == f"dpensemble: {sentence}\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("package", ["fastapi", "jwt", "prometheus_client", "uvicorn"])
@pytest.mark.parametrize("command", ["serve service.toml", "keys list keys.json"])
def test_the_service_names_its_extra(package, command, hide, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    hide(package)
    assert main(command.split()) == 2
    sentence = f'the service needs {package}, which is not installed: run pip install "dpensemble[service]".'
    assert capsys.readouterr().err == f"dpensemble: {sentence}\n"
