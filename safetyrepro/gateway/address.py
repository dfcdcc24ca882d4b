"""The address of somebody else's server, and the key that goes with it."""

from __future__ import annotations

import os

import httpx

from safetyrepro.errors import InputError


def server_url(url: str, said: str, key_variable: str) -> httpx.URL:
    """A server's base URL, checked.

    Args:
        url: As the user gave it, ending in `/v1` as a rule.
        said: What the message calls it.
        key_variable: Environment variable of its key.

    Raises:
        InputError: no http or https URL, or a URL with credentials or a query in it.
    """
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        parsed = httpx.URL("")
    if parsed.scheme not in ("http", "https") or not parsed.host or parsed.userinfo or parsed.query:
        shown = str(parsed.copy_with(username=None, password=None, query=None))
        raise InputError(f"{said} is {shown!r}: give http://HOST:PORT/v1 or https://, and the key in {key_variable}.")
    return parsed


def server_key(key_variable: str) -> str:
    """The key that an environment variable holds; empty where it is not set.

    Raises:
        InputError: it holds characters that no header takes.
    """
    key = os.environ.get(key_variable, "").strip()
    if not (key.isascii() and key.isprintable()):
        raise InputError(f"{key_variable} holds characters that no key has; set it again.")
    return key


def bearer(key: str) -> dict[str, str]:
    """Headers that present a key; none for an empty one."""
    return {"Authorization": f"Bearer {key}"} if key else {}
