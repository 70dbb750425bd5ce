"""The verifier as tests run it: in their own process, from its one file."""

import importlib.util
import json

from dpensemble.certificates.certificate import _verifier_path

_SPEC = importlib.util.spec_from_file_location("verify_alone", _verifier_path())
verify = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(verify)


def said(tmp_path, certificate):
    """Return the verifier's sentence. A refusal has to be its own."""
    path = tmp_path / "certificate.json"
    path.write_text(certificate if isinstance(certificate, str) else json.dumps(certificate))
    try:
        return verify.check(path)
    except (OSError, LookupError, ArithmeticError, TypeError, ValueError, RecursionError) as problem:
        return f"no: {problem}"


def body_of(certificate):
    return certificate["parts"][0]["body"]


def claiming(certificate, **claims):
    """Let the whole and its parts claim this much, each in quotes."""
    for each in (certificate, *certificate["parts"]):
        each.update({name: repr(float(value)) for name, value in claims.items()})
    return certificate
