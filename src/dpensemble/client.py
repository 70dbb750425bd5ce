"""A client of `dpensemble serve`; needs nothing but Python.

Examples
--------
>>> service = Client("https://answers.example.org", "dpe_...")
>>> service
Client('https://answers.example.org')
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from dpensemble.errors import BudgetError, DataError, DPEnsembleError, InvalidParameterError

# Refusals after which the same request may do: the service or its ledger was away.
_AWAY = frozenset({408, 429, 500, 502, 503, 504})
_FIGURES = ("unit", "requested", "spent", "remaining", "fits")


@dataclass(frozen=True, slots=True)
class Answered:
    """Answers to one request.

    Parameters
    ----------
    labels : list
        A label for each query; None where the law gave no answer.
    means : list of list of float or None
        Noisy means, where the law releases them.
    key : str
        Name of the request.
    replayed : bool
        Whether it was told from before, for nothing.
    """

    labels: list[Any]
    means: list[list[float]] | None
    key: str
    replayed: bool


class Client:
    """Asks a service, and asks again under the same name where no answer came.

    Parameters
    ----------
    url : str
        Where the service is; ``http`` is for this machine alone.
    key : str
        API key; white space around it is left out.
    timeout : float, default=60
        Seconds to wait for an answer.
    tries : int, default=5
        How often to ask in all; a request is charged once however often it is sent.
    proxy : str, optional
        Address of a proxy for an ``https`` service, which passes on what it cannot read. Proxies that the environment
        names (``http_proxy``, ``https_proxy``) are never used.

    Raises
    ------
    InvalidParameterError
        If the address or the proxy would send the key in the open, or the key holds what a header cannot carry.

    Notes
    -----
    Redirections are not followed, as the key would go along.
    """

    def __init__(self, url: str, key: str, *, timeout: float = 60.0, tries: int = 5, proxy: str | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or (parts.scheme == "http" and parts.hostname not in _HERE):
            raise InvalidParameterError(f"url={url!r:.80} would send the key in the open; give one with https.")
        if proxy is not None and (parts.scheme != "https" or not _is_proxy(proxy)):
            # Not quoted: it may hold a password.
            raise InvalidParameterError(
                f"proxy does not go with url={url!r:.80}; name one such as 'http://proxy.example.org:3128', and for a "
                "url with https alone, as the proxy would read the key otherwise."
            )
        # Not quoted: it is secret.
        if not isinstance(key, str) or not _TOKEN.fullmatch(key := key.strip()):
            raise InvalidParameterError("key is no API key; give the line that 'dpensemble keys create' printed.")
        self._url, self._key, self._timeout, self._tries = url.rstrip("/"), key, timeout, max(1, tries)
        # Without a handler of proxies urllib takes those of the environment.
        self._opener = build_opener(_Stay, ProxyHandler({} if proxy is None else {"https": proxy}))

    def __repr__(self) -> str:
        return f"Client({self._url!r})"

    def grants(self) -> list[dict[str, Any]]:
        """Return what may be asked, what is promised and what is left."""
        return list(self._get("/v1/grants"))

    def grant(self, name: str) -> dict[str, Any]:
        """Return what one grant promises, and what is left of it."""
        return dict(self._get(_grant_path(name)))

    def quote(self, grant: str, answers: int) -> dict[str, Any]:
        """Return what so many answers cost; charges nothing."""
        return dict(self._get(f"{_grant_path(grant)}/quote?{urlencode({'answers': answers})}"))

    def budgets(self) -> list[dict[str, Any]]:
        """Return what is left of the data sets."""
        return list(self._get("/v1/budgets"))

    def checkpoint(self) -> dict[str, Any]:
        """Return a signed statement of where the ledger stands, to be kept (owners only)."""
        return dict(self._get("/v1/checkpoint"))

    def predict(self, grant: str, *, key: str | None = None, **asked: Any) -> Answered:
        """Ask for a batch of answers.

        Parameters
        ----------
        grant : str
            Name of the grant.
        key : str, optional
            Name of the request, under which it can be asked again for nothing, even after this process; a new one by
            default.
        **asked
            One of ``counts``, ``ballots``, ``log_probs`` or ``rows``: a list of queries.

        Raises
        ------
        BudgetError
            If it is more than is left; ``figures`` says what would fit. Nothing was charged.
        InvalidParameterError
            If the grant or the request is named by what cannot be sent. Nothing was charged.
        DataError
            If the request cannot be used, or the name was used for another one. Nothing was charged.
        DPEnsembleError
            If the key is not for that, or no answer came; the same request under the same name is charged once.
        """
        key = str(uuid.uuid4()) if key is None else key
        if not isinstance(key, str) or not _is_carried(key):
            raise InvalidParameterError(
                f"key={key!r:.80} is no name of a request; use printable Latin characters without spaces around them."
            )
        body = json.dumps(asked).encode()
        headers = {"Idempotency-Key": key, "Content-Type": "application/json"}
        answers, replayed = self._send(f"{_grant_path(grant)}/predictions", body, headers)
        return Answered(answers["labels"], answers["means"], key, replayed)

    def _get(self, path: str) -> Any:
        return self._send(path, None, {})[0]

    def _send(self, path: str, body: bytes | None, headers: Mapping[str, str]) -> tuple[Any, bool]:
        sent = {**headers, "Authorization": f"Bearer {self._key}"}
        for attempt in range(self._tries):
            if attempt:
                time.sleep(min(10.0, 0.25 * 2**attempt))
            try:
                # The scheme was checked when the client was made.
                request = Request(self._url + path, body, sent)  # noqa: S310
                with self._opener.open(request, timeout=self._timeout) as response:
                    text, replayed = response.read(), response.headers.get("Idempotent-Replayed") == "true"
                with suppress(ValueError):
                    return json.loads(text), replayed
            except HTTPError as error:
                with error:
                    if error.code not in _AWAY or attempt == self._tries - 1:
                        raise _refusal(error) from None
            except (URLError, HTTPException, OSError):
                continue
        raise DPEnsembleError(f"{self._url} gave no answer in {self._tries} tries; ask again by the same key.")


_HERE = ("localhost", "127.0.0.1", "::1")
# What a header carries as it is.
_TOKEN = re.compile(r"[!-~]+")


class _Stay(HTTPRedirectHandler):
    """Follows no redirection, so that the key goes nowhere else."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Return no request."""


def _is_proxy(proxy: object) -> bool:
    parts = urlsplit(proxy) if isinstance(proxy, str) else None
    return parts is not None and parts.scheme == "http" and bool(parts.hostname)


def _is_carried(name: str) -> bool:
    return bool(name) and name == name.strip() and name.isprintable() and all(ord(one) < 256 for one in name)


def _grant_path(name: str) -> str:
    if not isinstance(name, str) or not name:
        raise InvalidParameterError(f"grant={name!r:.80} is no name; Client.grants() lists those there are.")
    return f"/v1/grants/{quote(name, safe='')}"


def _refusal(error: HTTPError) -> DPEnsembleError:
    if 300 <= error.code < 400:
        return DPEnsembleError(
            f"the service sent the request elsewhere (status {error.code}), which is not followed, as the key would go "
            "along; give the address that it moved to."
        )
    try:
        problem = json.load(error)
        text = f"{problem['title']} {problem.get('detail', '')}".strip()
    except (ValueError, KeyError, TypeError, OSError):
        problem, text = {}, f"the service refused with status {error.code}."
    if str(problem.get("type", "")).endswith(":budget"):
        return BudgetError(text, figures={name: problem[name] for name in _FIGURES if name in problem})
    return DataError(text) if error.code in (400, 413, 422) else DPEnsembleError(text)
