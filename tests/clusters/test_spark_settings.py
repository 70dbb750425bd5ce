"""What Spark must encrypt, by settings that a session cannot change, without Spark."""

import pytest

from dpensemble.datasets.partitions import require_encryption
from dpensemble.errors import InvalidParameterError

ALL = dict.fromkeys(("spark.authenticate", "spark.network.crypto.enabled", "spark.io.encryption.enabled"), "true")


class Classic:
    """A session in this process, whose context started with some settings."""

    def __init__(self, started, session=None):
        self.conf, self.sparkContext = session or {}, self
        self.getConf = lambda: started


class Client:
    """A client of a server of Spark Connect."""

    released = False

    def __init__(self, host, **parameters):
        self.host, self.parameters, self._builder, self._session_id = host, parameters, self, "named in the address"

    def getDefault(self, name, default):  # noqa: N802
        return self.parameters.get(name, default)

    def release_session(self):
        Client.released = self._session_id != "named in the address"

    def close(self):
        pass


class Connect:
    """A session of Spark Connect. A new one has the settings of the server."""

    server: dict[str, str] | None = {}  # noqa: RUF012

    def __init__(self, *, connection, session=None):
        self.client = Client(connection.host, **connection.parameters)
        self.conf = self.server if session is None else session


@pytest.mark.parametrize("missing", ALL)
@pytest.mark.parametrize("master", ["spark://10.0.0.5:7077", "local-cluster[2,1,1024]", "yarn", ""])
def test_clusters_encrypt_everything(missing, master):
    settings = ALL | {"spark.master": master}
    require_encryption(Classic(settings), has_units=True)
    with pytest.raises(InvalidParameterError, match=missing):
        require_encryption(Classic(settings | {missing: "false"}), has_units=False)
    # Those of the session came too late.
    del settings[missing]
    with pytest.raises(InvalidParameterError, match="start Spark again"):
        require_encryption(Classic(settings, session=ALL), has_units=False)


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]"])
def test_this_machine_encrypts_disks_where_there_are_units(master):
    require_encryption(Classic({"spark.master": master}), has_units=False)
    with pytest.raises(InvalidParameterError, match=r"spark\.io\.encryption\.enabled"):
        require_encryption(Classic({"spark.master": master}), has_units=True)
    require_encryption(Classic({"spark.master": master, "spark.io.encryption.enabled": "true"}), has_units=True)


def test_settings_of_the_server_count_and_not_those_of_a_session(monkeypatch):
    here = Client("127.0.0.1")
    monkeypatch.setattr(Connect, "server", {"spark.master": "spark://10.0.0.5:7077"})
    fooled = Connect(connection=here, session=ALL | {"spark.master": "local[2]"})
    with pytest.raises(InvalidParameterError, match="start Spark again"):
        require_encryption(fooled, has_units=False)
    assert Client.released
    monkeypatch.setattr(Connect, "server", {"spark.master": "spark://10.0.0.5:7077"} | ALL)
    require_encryption(Connect(connection=here, session={}), has_units=True)


@pytest.mark.parametrize("more", [{}, {"use_ssl": "false"}, {"token": "use_ssl=true"}])
def test_servers_on_other_machines_need_an_encrypted_channel(more, monkeypatch):
    monkeypatch.setattr(Connect, "server", {"spark.master": "local[2]"} | ALL)
    with pytest.raises(InvalidParameterError, match=r"'192\.0\.2\.9'.* in the clear"):
        require_encryption(Connect(connection=Client("192.0.2.9", **more)), has_units=False)
    require_encryption(Connect(connection=Client("192.0.2.9", **more | {"use_ssl": "TRUE"})), has_units=True)


def test_what_cannot_be_seen_is_refused(monkeypatch):
    session = Connect(connection=Client("localhost"))
    monkeypatch.setattr(Connect, "server", None)
    with pytest.raises(InvalidParameterError, match=r"could not be read \(AttributeError\)"):
        require_encryption(session, has_units=False)
    del session.client._builder
    with pytest.raises(InvalidParameterError, match="shows its address"):
        require_encryption(session, has_units=False)
