"""A client of `dpensemble serve` that requires only Python.

Examples
--------
>>> service = Client("https://answers.example.org", "dpe_...")
>>> service
Client('https://answers.example.org')
"""

from __future__ import annotations

import json
import re
import ssl
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPException
from pathlib import Path
from typing import Any, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import BaseHandler, HTTPRedirectHandler, HTTPSHandler, ProxyHandler, Request, build_opener

from dpensemble._checks import printable
from dpensemble.errors import BudgetError, DataError, DPEnsembleError, FileError, InvalidParameterError

# Refusals that a later try may overcome: the service or its ledger was unavailable.
_AWAY = frozenset({408, 429, 500, 502, 503, 504})
# Most bytes of an answer, and of a refusal.
_LARGEST, _LONGEST_REFUSAL = 2**30, 2**16
Content = TypeVar("Content")
_FIGURES = ("unit", "requested", "spent", "remaining", "fits")


@dataclass(frozen=True, slots=True)
class Answered:
    """Answers to one request.

    Parameters
    ----------
    labels : list
        A label for each query, or None if the law gave no answer.
    means : list of list of float or None
        Noisy means, if the law releases them.
    key : str
        Name of the request.
    replayed : bool
        Whether this is an earlier answer, which was free.
    """

    labels: list[Any]
    means: list[list[float]] | None
    key: str
    replayed: bool


class Sender:
    """Sends requests with a key to one address, and repeats them when no answer arrives. Follows no redirection.

    Parameters
    ----------
    url, key, timeout, proxy
        As for `Client`.
    authority : path, optional
        Certificates in PEM of the authority that issued the service's certificate. By default those of the system.
    """

    def __init__(
        self,
        url: str,
        key: str,
        *,
        timeout: float = 60.0,
        proxy: str | None = None,
        authority: Path | str | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or (parts.scheme == "http" and parts.hostname not in _HERE):
            raise InvalidParameterError(f"url must be an https address, or the key would be readable; got {url!r:.80}.")
        if proxy is not None and (parts.scheme != "https" or not _is_proxy(proxy)):
            # Not quoted: the address may contain a password.
            raise InvalidParameterError(
                f"proxy cannot be used with url={url!r:.80}: give a proxy such as 'http://proxy.example.org:3128', and "
                "only with an https url, because the proxy could read the key otherwise."
            )
        # Not quoted: the key is secret.
        if not isinstance(key, str) or not _TOKEN.fullmatch(key := key.strip()):
            raise InvalidParameterError("key must be an API key: give the line that 'dpensemble keys create' printed.")
        self.url, self._key, self._timeout = url.rstrip("/"), key, timeout
        handlers: list[BaseHandler] = [] if authority is None else [HTTPSHandler(context=_trusting(Path(authority)))]
        # Without a proxy handler, urllib would use the proxies of the environment.
        self._opener = build_opener(_Stay, ProxyHandler({} if proxy is None else {"https": proxy}), *handlers)

    def send(
        self,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        read: Callable[[bytes], Content],
        method: str | None = None,
        tries: int = 1,
        largest: int = _LARGEST,
    ) -> tuple[Content, Message]:
        """Return the content of an answer and its headers.

        Parameters
        ----------
        path, body, headers, method
            Of the request.
        read : callable
            Reads the content. If `read` raises a ValueError, the answer counts as cut off.
        tries : int, default=1
            Largest number of tries.
        largest : int
            Most bytes of an answer.

        Raises
        ------
        NoAnswer
            If no whole answer arrived in any try.
        NotThere
            If the service has nothing at this path.
        DPEnsembleError
            If the service refuses, its certificate is not trusted, or an answer is too large.
        """
        sent = {**(headers or {}), "Authorization": f"Bearer {self._key}"}
        for attempt in range(tries):
            if attempt:
                time.sleep(min(10.0, 0.25 * 2**attempt))
            try:
                # The scheme was checked before.
                request = Request(self.url + path, body, sent, method=method)  # noqa: S310
                with self._opener.open(request, timeout=self._timeout) as response:
                    content, about = response.read(largest + 1), response.headers
            except HTTPError as error:
                with error:
                    if error.code not in _AWAY or attempt == tries - 1:
                        raise _refusal(error) from None
                continue
            except (URLError, HTTPException, OSError) as error:
                _require_trusted(self.url, error)
                continue
            if len(content) > largest:
                raise DataError(f"{self.url} sent more than {largest:,} bytes: nothing of it was read.")
            # Reading a limited number of bytes does not notice that a connection ended early.
            if about.get("Content-Length", str(len(content))) == str(len(content)):
                with suppress(ValueError):
                    return read(content), about
        raise NoAnswer(f"{self.url} gave no answer in {tries} tries: repeat the request with the same key.")


class NoAnswer(DPEnsembleError):  # noqa: N818 - nothing was refused
    """A service gave no answer."""


class NotThere(DPEnsembleError):  # noqa: N818 - nothing was refused
    """A service has nothing at a path."""


class Client:
    """Sends requests to a service, and repeats a request under the same name if no answer arrives.

    Parameters
    ----------
    url : str
        Address of the service. ``http`` is only for this machine.
    key : str
        API key. White space around it is ignored.
    timeout : float, default=60
        Seconds to wait for an answer.
    tries : int, default=5
        Largest number of tries. A request is charged once, however often it is sent.
    proxy : str, optional
        Address of a proxy for an ``https`` service. The proxy passes on encrypted data that it cannot read. Proxies in
        the environment (``http_proxy``, ``https_proxy``) are never used.

    Raises
    ------
    InvalidParameterError
        If the address or the proxy would send the key unencrypted, or a header cannot carry the key.

    Notes
    -----
    Redirections are not followed, because the key would be sent along.
    """

    def __init__(self, url: str, key: str, *, timeout: float = 60.0, tries: int = 5, proxy: str | None = None) -> None:
        self._sender, self._tries = Sender(url, key, timeout=timeout, proxy=proxy), max(1, tries)

    def __repr__(self) -> str:
        return f"Client({self._sender.url!r})"

    def grants(self) -> list[dict[str, Any]]:
        """Return the grants, their guarantees and what is left of them."""
        return list(self._get("/v1/grants"))

    def grant(self, name: str) -> dict[str, Any]:
        """Return the guarantee of one grant, and what is left of it."""
        return dict(self._get(_grant_path(name)))

    def quote(self, grant: str, answers: int) -> dict[str, Any]:
        """Return the cost of a number of answers. A quote charges nothing."""
        return dict(self._get(f"{_grant_path(grant)}/quote?{urlencode({'answers': answers})}"))

    def budgets(self) -> list[dict[str, Any]]:
        """Return what is left of the data sets."""
        return list(self._get("/v1/budgets"))

    def checkpoint(self) -> dict[str, Any]:
        """Return a signed statement about the ledger's last entry, to be stored elsewhere (owners only)."""
        return dict(self._get("/v1/checkpoint"))

    def predict(self, grant: str, *, key: str | None = None, **queries: Any) -> Answered:
        """Request a batch of answers.

        Parameters
        ----------
        grant : str
            Name of the grant.
        key : str, optional
            Name of the request. Repeating a request under its name costs nothing, even from another process. By
            default, a new name.
        **queries
            One of ``counts``, ``ballots``, ``log_probs`` or ``rows``: a list of queries.

        Raises
        ------
        BudgetError
            If the request exceeds what is left. ``figures`` holds what would fit. Nothing was charged.
        InvalidParameterError
            If the name of the grant or of the request cannot be sent. Nothing was charged.
        DataError
            If the request cannot be used, or its name was used for another request. Nothing was charged.
        DPEnsembleError
            If the key does not allow the request, or no answer arrived. Repeating the request under the same name
            charges it only once.
        """
        key = str(uuid.uuid4()) if key is None else key
        if not isinstance(key, str) or not _is_carried(key):
            raise InvalidParameterError(
                f"key must be printable Latin characters without spaces around them; got {key!r:.80}."
            )
        body = json.dumps(queries).encode()
        headers = {"Idempotency-Key": key, "Content-Type": "application/json"}
        answers, replayed = self._send(f"{_grant_path(grant)}/predictions", body, headers)
        return Answered(answers["labels"], answers["means"], key, replayed)

    def _get(self, path: str) -> Any:
        return self._send(path, None, {})[0]

    def _send(self, path: str, body: bytes | None, headers: Mapping[str, str]) -> tuple[Any, bool]:
        content, about = self._sender.send(path, body, headers, read=json.loads, tries=self._tries)
        return content, about.get("Idempotent-Replayed") == "true"


_HERE = ("localhost", "127.0.0.1", "::1")
# What a header carries unchanged.
_TOKEN = re.compile(r"[!-~]+")


class _Stay(HTTPRedirectHandler):
    """Follows no redirection, so that the key is sent nowhere else."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Return no request."""


def _trusting(authority: Path) -> ssl.SSLContext:
    """Return settings of TLS that trust one authority."""
    try:
        return ssl.create_default_context(cafile=authority)
    except OSError as error:
        reason = (error.reason if isinstance(error, ssl.SSLError) else error.strerror) or type(error).__name__
        raise FileError(
            f"authority={str(authority)!r} cannot be used ({reason}): give certificates in PEM format."
        ) from None


def _require_trusted(url: str, error: Exception) -> None:
    """Raise if no answer arrived because the service's certificate is not trusted, which no further try changes."""
    reason = error.reason if isinstance(error, URLError) else error
    if isinstance(reason, ssl.SSLCertVerificationError):
        raise DPEnsembleError(
            f"the certificate of {url} is not trusted ({reason.verify_message}): give the certificate of its authority."
        ) from None


def _is_proxy(proxy: object) -> bool:
    parts = urlsplit(proxy) if isinstance(proxy, str) else None
    return parts is not None and parts.scheme == "http" and bool(parts.hostname)


def _is_carried(name: str) -> bool:
    return bool(name) and name == name.strip() and name.isprintable() and all(ord(one) < 256 for one in name)


def _grant_path(name: str) -> str:
    if not isinstance(name, str) or not name:
        raise InvalidParameterError(
            f"grant must be the name of a grant, as Client.grants() lists them; got {name!r:.80}."
        )
    return f"/v1/grants/{quote(name, safe='')}"


def _refusal(error: HTTPError) -> DPEnsembleError:
    if 300 <= error.code < 400:
        return DPEnsembleError(
            f"the service redirected the request (status {error.code}); redirections are not followed, because the key "
            "would be sent along, so give the new address."
        )
    try:
        problem = json.loads(error.read(_LONGEST_REFUSAL))
        text = printable(f"{problem['title']} {problem.get('detail', '')}".strip())
    except (ValueError, KeyError, TypeError, OSError, RecursionError):
        problem, text = {}, f"the service refused with status {error.code}."
    if str(problem.get("type", "")).endswith(":budget"):
        return BudgetError(text, figures={name: problem[name] for name in _FIGURES if name in problem})
    if error.code == 404:
        return NotThere(text)
    return DataError(text) if error.code in (400, 413, 422) else DPEnsembleError(text)
