"""Bytes of texts that are not UTF-8. Each is read separately, so that one odd record changes no other."""

from __future__ import annotations

import codecs

#: Handler of errors for ``bytes.decode`` and ``open``, which reads such bytes as Windows writes them.
AS_WINDOWS = "dpensemble-windows"


def _windows(error: UnicodeError) -> tuple[str, int]:
    """Decode bytes that are not UTF-8 as Windows writes them (cp1252), each separately. Other encodings lose them."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    if error.encoding.lower() not in ("utf-8", "utf8"):
        return "\N{REPLACEMENT CHARACTER}", error.end
    odd = error.object[error.start : error.end]
    return "".join(bytes([byte]).decode("cp1252", errors="replace") for byte in odd), error.end


codecs.register_error(AS_WINDOWS, _windows)
