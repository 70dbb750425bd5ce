"""Settings of a service, from its configuration file. They are public, except for the content of named files."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from dpensemble._checks import integer_between, real_between
from dpensemble._files import file_bytes
from dpensemble.datasets.formats import EntryRules
from dpensemble.errors import FileError, InvalidParameterError
from dpensemble.guarantee import Budget
from dpensemble.laws import LawChoice
from dpensemble.releases import RELEASES
from dpensemble.rows.arguments import OnBadRecord
from dpensemble.server.entries import look_alike
from dpensemble.server.sign_in import OidcSettings

# Laws with their own kind of release, by name. All of their settings must be given.
# Most bytes of a configuration.
_LARGEST = 2**20
_WHOLE_LAWS: dict[str, Any] = {kind.name: kind for kind in RELEASES}
_Made = TypeVar("_Made")


@dataclass(frozen=True, slots=True, kw_only=True)
class EnsembleSettings:
    """Teachers that are fitted when the service starts, one for each voter.

    Only the teachers learn from the private table. Columns are encoded by public rows. The seed is public, and
    determines the partition and the teachers. `columns`, `blank` and `below_limit` state how entries are read, as for
    `dpensemble.datasets.TablePreparation`. A bad private record teaches no teacher, but it still counts ("zero", the
    default), or it stops the start ("raise").
    """

    private: str
    public: str
    target: str
    unit: str | None = None
    drop: tuple[str, ...] = ()
    teacher: str = "logistic-regression"
    seed: int = 0
    sep: str | None = None
    decimal: str | None = None
    multiline_text: bool | None = None
    skip_lines: int | None = None
    sheet: str | None = None
    on_bad_record: str | None = None
    columns: Mapping[str, str] | None = None
    blank: Mapping[str, Sequence[object]] | Sequence[object] | None = None
    below_limit: str | None = None

    @property
    def entries(self) -> EntryRules:
        """How entries of the tables are read."""
        return EntryRules(columns=self.columns or {}, blank=self.blank or {}, below_limit=self.below_limit or "limit")

    @property
    def bad_records(self) -> str:
        """What happens to a bad record."""
        # Not the default of the field, because grants of earlier releases are for settings without it.
        return OnBadRecord.ZERO if self.on_bad_record is None else self.on_bad_record

    @property
    def digest(self) -> str:
        """Hash of these settings, without the content of the files. The grant in the ledger stands for it too."""
        content = {name: value for name, value in asdict(self).items() if value is not None}
        return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantSettings:
    """One grant that a service answers under. `docs/service.md` describes the settings.

    The account `data_set` pays `epsilon` and `delta` for all answers together. Without `answers`, there are as many
    answers as the budget allows. `votes_per_unit` is the largest number of voters that one unit reaches. `unit` names
    what is protected. Without an ensemble, votes are posted.
    """

    name: str
    data_set: str
    classes: Any
    voters: int
    epsilon: float
    delta: float
    law: Any = "gnmax"
    relation: str = "replace-one"
    answers: int | None = None
    votes_per_unit: int = 1
    unit: str = "record"
    clip: float | None = None
    about: str = ""
    ensemble: EnsembleSettings | None = None

    @property
    def budget(self) -> Budget:
        """Epsilon and delta of all answers."""
        return Budget(epsilon=self.epsilon, delta=self.delta)

    def law_object(self) -> Any:
        """Return the named law with its settings."""
        law_fields = {"name": self.law} if isinstance(self.law, str) else dict(self.law)
        name = law_fields.pop("name", None)
        if name in _WHOLE_LAWS:
            try:
                return _WHOLE_LAWS[name](**law_fields)
            except TypeError:
                names = ", ".join(one.name for one in fields(_WHOLE_LAWS[name]))
                raise InvalidParameterError(f"law {name!r} takes {names}: give these and no others.") from None
        number = len(self.classes) if isinstance(self.classes, list) else integer_between("classes", self.classes, 2)
        return LawChoice.of(name, **law_fields).law(self.voters, number)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitSettings:
    """Longest waits in seconds, each from 0.1 to 60.

    `read`, `write`, `quote` and `token` end the wait of a client for an answer. `handshake` ends a connection that does
    not finish its TLS handshake.
    """

    read: float = 5.0
    write: float = 5.0
    quote: float = 5.0
    token: float = 5.0
    handshake: float = 5.0

    def __post_init__(self) -> None:
        for name, seconds in asdict(self).items():
            real_between(f"waits: {name}", seconds, 0.1, 60.0)

    @property
    def lock(self) -> float:
        """Seconds that a charge waits for other writers. Less than `write`, so that the client learns the reason."""
        return 0.8 * self.write


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """A whole configuration. `docs/service.md` describes the settings.

    Relative file names begin at `folder`. `secure_cookie` is whether the page's cookie goes only over HTTPS,
    even if the service itself sees another scheme. The default is yes, unless `dpensemble.server.app.serve` listens
    on a loopback address. Over HTTPS it is always yes.
    """

    ledger: str
    keys: str
    grants: tuple[GrantSettings, ...]
    signing_key: str | None = None
    witness: str | None = None
    most_bytes: int = 2_000_000
    most_queries: int = 1_000
    secure_cookie: bool | None = None
    oidc: OidcSettings | None = None
    waits: WaitSettings = field(default_factory=WaitSettings)
    folder: Path = field(default_factory=Path.cwd)

    def path(self, name: str) -> Path:
        """Return the path of a file."""
        if "\0" in name:
            raise InvalidParameterError(f"the name of a file holds a null character: correct {name!r:.60}.")
        return self.folder / name

    @property
    def ledger_place(self) -> str:
        """Where the ledger is."""
        return self.ledger if "://" in self.ledger else str(self.path(self.ledger))


def read_settings(path: Path) -> ServiceSettings:
    """Read a configuration file.

    Parameters
    ----------
    path : path
        TOML.

    Raises
    ------
    FileError
        If the file cannot be read, or is not TOML.
    InvalidParameterError
        If a setting is missing or unknown.
    """
    try:
        content = tomllib.loads(file_bytes(path, links=True, largest=_LARGEST).decode("utf-8"))
    except OSError as error:
        raise FileError(f"config={str(path)!r} cannot be read ({error.strerror}): name the service's file.") from None
    except ValueError as error:
        raise FileError(f"config={str(path)!r} must be TOML ({error}): correct the file.") from None
    except RecursionError:
        raise FileError(f"config={str(path)!r} is nested too deeply: write plain tables of settings.") from None
    grants = content.pop("grants", None)
    if not isinstance(grants, list) or not grants or not all(isinstance(one, dict) for one in grants):
        raise InvalidParameterError("the configuration has no [[grants]]: describe at least one.")
    grant_settings = tuple(_grant(one) for one in grants)
    names = [one.name for one in grant_settings]
    if len(set(names)) != len(names):
        raise InvalidParameterError("two grants have the same name: give each its own name.")
    for one in grant_settings:
        other = look_alike(one.name, [each.name for each in grant_settings if each.data_set == one.data_set])
        if other is not None:
            raise InvalidParameterError(f"grants {one.name!r} and {other!r} look alike: give each its own name.")
    for name, kind in (("oidc", OidcSettings), ("waits", WaitSettings)):
        table = content.pop(name, None)
        if table is not None:
            if not isinstance(table, dict):
                raise InvalidParameterError(f"{name} must be a table: write [{name}].")
            content[name] = _from_fields(kind, name, table)
    settings = _from_fields(
        ServiceSettings, "the configuration", {**content, "grants": grant_settings, "folder": path.resolve().parent}
    )
    integer_between("most_bytes", settings.most_bytes, 1_000, 1_000_000_000)
    integer_between("most_queries", settings.most_queries, 1, 1_000_000)
    if not isinstance(settings.secure_cookie, bool | None):
        raise InvalidParameterError(f"secure_cookie must be true or false; got {settings.secure_cookie!r:.60}.")
    return settings


def _grant(content: dict[str, Any]) -> GrantSettings:
    content = dict(content)
    called = f"grant {content.get('name')!r:.60}"
    ensemble = content.pop("ensemble", None)
    if ensemble is not None:
        if not isinstance(ensemble, dict):
            raise InvalidParameterError(f"{called}: ensemble must be a table; write [grants.ensemble].")
        if "drop" in ensemble:
            ensemble = {**ensemble, "drop": _names_of_columns(called, ensemble["drop"])}
        content["ensemble"] = _from_fields(EnsembleSettings, f"{called}, ensemble", ensemble)
        _require_entries(called, content["ensemble"])
    settings = _from_fields(GrantSettings, called, content)
    if not isinstance(settings.name, str) or not _is_plain(settings.name):
        raise InvalidParameterError(
            f"{called}: name must be 1 to 60 letters, digits, '-', '_' and '.'; rename the grant."
        )
    integer_between("voters", settings.voters, 1)
    law = settings.law.get("name") if isinstance(settings.law, dict) else settings.law
    if not isinstance(law, str):
        raise InvalidParameterError(
            f'{called}: law must be a name, or a table such as {{name = "gnmax", sigma = 40.0}}.'
        )
    return settings


def _names_of_columns(called: str, drop: object) -> tuple[str, ...]:
    """Return the columns that a list names, or a text with commas as the command line takes it."""
    names = [name.strip() for name in drop.split(",")] if isinstance(drop, str) else drop
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise InvalidParameterError(
            f'{called}: ensemble.drop={drop!r:.60} must be a list of columns: write drop = ["postcode", "name"].'
        )
    return tuple(names)


def _require_entries(called: str, ensemble: EnsembleSettings) -> None:
    """Raise if settings about entries have another form than declarations."""
    columns, blank = ensemble.columns, ensemble.blank
    if columns is not None and not isinstance(columns, dict):
        raise InvalidParameterError(
            f'{called}: ensemble.columns={columns!r:.60} must be a table of kinds: write columns = {{pay = "money"}}.'
        )
    lists = list(blank.values()) if isinstance(blank, dict) else [[] if blank is None else blank]
    if not all(isinstance(one, list) and not any(isinstance(entry, dict | list) for entry in one) for one in lists):
        raise InvalidParameterError(
            f"{called}: ensemble.blank={blank!r:.60} must be a list of entries, or a table of such lists: write "
            'blank = ["."] or blank = {age = [99]}.'
        )
    try:
        ensemble.entries  # noqa: B018
    except InvalidParameterError as error:
        raise InvalidParameterError(f"{called}, ensemble: {error}") from None


def _is_plain(name: str) -> bool:
    return 0 < len(name) <= 60 and name.isascii() and all(one.isalnum() or one in "-_." for one in name)


def _from_fields(kind: type[_Made], called: str, content: Mapping[str, Any]) -> _Made:
    """Return a dataclass made of the settings. Raise if settings are missing or unknown, and name them."""
    field_of = {one.name: one for one in fields(kind)}  # type: ignore[arg-type]
    unknown = [name for name in content if name not in field_of]
    lacking = [
        name
        for name, one in field_of.items()
        if name not in content and one.default is MISSING and one.default_factory is MISSING
    ]
    if unknown:
        raise InvalidParameterError(f"{called}: {unknown[0]!r:.60} is unknown; use {', '.join(field_of)}.")
    if lacking:
        raise InvalidParameterError(f"{called} lacks {', '.join(lacking)}: add it.")
    for name, value in content.items():
        if "str" in str(field_of[name].type).split(" | ") and not isinstance(value, str):
            raise InvalidParameterError(f"{called}: {name} must be a text; got {value!r:.60}.")
    return kind(**content)
