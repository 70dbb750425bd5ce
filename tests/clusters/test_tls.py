"""A Dask cluster with certificates: the release of one process, and no connection without a certificate."""

import datetime
import ipaddress
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from dpensemble import LabelMomentsClassifier, on_cluster
from dpensemble.datasets.partitions import ParquetParts
from dpensemble.errors import InvalidParameterError

from ..deadline import GUARD

pytestmark = [pytest.mark.nightly, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """An authority that signs one certificate for this host, as files."""
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    place = tmp_path_factory.mktemp("tls")

    def certificate(name, signs, issuer, signer):
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        builder = (
            x509.CertificateBuilder(subject_name=subject, issuer_name=issuer or subject, public_key=key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC))
            .not_valid_after(datetime.datetime(2199, 1, 1, tzinfo=datetime.UTC))
            .add_extension(x509.BasicConstraints(ca=signs, path_length=None), critical=True)
            .add_extension(here, critical=False)
        )
        return key, builder.sign(signer or key, hashes.SHA256()), subject

    authority_key, authority, issuer = certificate("authority", True, None, None)
    key, own, _ = certificate("here", False, issuer, authority_key)
    pem = serialization.Encoding.PEM
    (place / "ca.pem").write_bytes(authority.public_bytes(pem))
    (place / "own.pem").write_bytes(own.public_bytes(pem))
    plain = serialization.NoEncryption()
    (place / "key.pem").write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    return place


@pytest.fixture(scope="module")
def scheduler(certificates):
    """The address of a scheduler with two workers, all with certificates."""
    distributed = pytest.importorskip("distributed")
    place, processes = certificates, []
    flags = ("--tls-ca-file", "ca.pem", "--tls-cert", "own.pem", "--tls-key", "key.pem", "--no-dashboard")
    with (place / "log").open("w") as log:
        for what, *more in (
            ("scheduler", "--port", "0", "--protocol", "tls"),
            *[("worker", "--nthreads", "1", "--no-nanny", "--memory-limit", "0", "--protocol", "tls")] * 2,
        ):
            command = [sys.executable, "-m", f"distributed.cli.dask_{what}", *more, *flags]
            command += ["--host", "127.0.0.1", "--scheduler-file", "s.json"]
            processes.append(subprocess.Popen(command, cwd=place, stdout=log, stderr=log))
        security = distributed.Security(
            tls_ca_file=str(place / "ca.pem"),
            tls_client_cert=str(place / "own.pem"),
            tls_client_key=str(place / "key.pem"),
            require_encryption=True,
        )
        file = str(place / "s.json")
        with distributed.Client(scheduler_file=file, security=security, timeout=GUARD, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=GUARD)
            yield client.scheduler.address
        for process in processes:
            process.kill()
            process.wait()


def settings_of(place):
    names = {"ca-file": "ca.pem", "client.cert": "own.pem", "client.key": "key.pem"}
    return {f"distributed.comm.tls.{name}": str(place / file) for name, file in names.items()}


def test_certificates_release_what_one_process_releases(certificates, scheduler, tmp_path):
    dask = pytest.importorskip("dask")
    assert scheduler.startswith("tls://")
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=600), "b": rng.integers(0, 5, 600)})
    table["y"] = (table["a"] > 0).astype(int)
    for number in range(3):
        table[300 + 100 * number : 400 + 100 * number].to_parquet(tmp_path / f"{number}.parquet", index=False)
    public = table[:300][["a", "b"]]

    def values():
        model = LabelMomentsClassifier(classes=[0, 1], delta=1e-4, insecure_release_seed=5)
        fitted = model.fit_blocks(ParquetParts(tmp_path, "y"), X_public=public)
        return [one.values.tolist() for one in fitted.moments_]

    expected = values()
    with dask.config.set(settings_of(certificates)), on_cluster("dask", scheduler):
        assert values() == expected


def test_without_a_certificate_there_is_no_connection(scheduler):
    with (
        pytest.raises(InvalidParameterError, match="requires a certificate of this client"),
        on_cluster("dask", scheduler),
    ):
        pytest.fail("connected")
