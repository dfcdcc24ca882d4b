"""Where things are kept: the user's cache and the user's data."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

from safetyrepro.errors import InputError


def cache_dir() -> Path:
    """The cache for suite environments and pulled models (`SAFETYREPRO_CACHE` overrides it)."""
    override = os.environ.get("SAFETYREPRO_CACHE")
    return Path(override).expanduser().resolve() if override else Path(platformdirs.user_cache_dir("safetyrepro"))


def data_dir(explicit: Path | None = None) -> Path | None:
    """The folder of official benchmark files: the explicit one, else `SAFETYREPRO_DATA`, else None.

    Raises:
        InputError: there is no such folder.
    """
    named = explicit or (Path(os.environ["SAFETYREPRO_DATA"]) if os.environ.get("SAFETYREPRO_DATA") else None)
    if named is None:
        return None
    if named.is_file():
        raise InputError(f"Data folder {named} is a file; name a folder laid out as docs/data.md says.")
    if not named.is_dir():
        raise InputError(f"Data folder {named} does not exist; name a folder laid out as docs/data.md says.")
    return named.resolve()
