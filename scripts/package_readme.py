"""The README of the built package: its links work outside the repository, too.

A package index shows the README apart from the files around it. There a relative link leads nowhere, and a relative
picture is missing. The build therefore puts the address of the repository before them. The address is that of
`Repository` under `[project.urls]` in ``pyproject.toml``. As long as none is set, links keep their text and pictures
their description.
"""

from __future__ import annotations

import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
_CODE = re.compile(r"(^```.*?^```|`[^`\n]*`)", re.DOTALL | re.MULTILINE)


def standalone(text: str, repository: str | None) -> str:
    """Return a README whose relative links lead to a repository, or are plain text when there is none.

    Parameters
    ----------
    text : str
        The README as Markdown. Code stays as it is.
    repository : str or None
        Address of the repository, for example ``https://example.org/owner/name``.
    """

    def rewritten(link: re.Match[str]) -> str:
        target = link["target"]
        if "://" in target or target.startswith("#"):
            return link[0]
        if repository is None:
            return f"*{link['text']}*" if link["picture"] else link["text"]
        kind = "raw" if link["picture"] else "blob"
        return f"{link['picture']}[{link['text']}]({repository.rstrip('/')}/{kind}/main/{target})"

    parts = _CODE.split(text)
    return "".join(part if place % 2 else _LINK.sub(rewritten, part) for place, part in enumerate(parts))


class PackageReadme(MetadataHookInterface):
    """Sets `readme` while hatchling builds the package."""

    def update(self, metadata: dict) -> None:
        """Set the README from the file and the address of the repository."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        repository = metadata.get("urls", {}).get("Repository")
        metadata["readme"] = {"content-type": "text/markdown", "text": standalone(text, repository)}
