"""A runner's name: a suite (`inspect_ai`), or a suite at a release of one's choice (`inspect_ai@0.3.258`).

Two releases of a suite are two runners of one comparison: what stands behind the `@` names a lock file, either one that
the suite's adapter brings (docs/suites.md) or one that the config gives under that name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

SUITES: tuple[str, ...] = ("lm_eval", "helm", "inspect_ai", "native")
"""In report order."""
TITLES = {"lm_eval": "lm-eval", "helm": "HELM", "inspect_ai": "Inspect AI", "native": "native runner"}
_RELEASE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}")


def suite_of(runner: str) -> str:
    """The suite of a runner."""
    return runner.partition("@")[0]


def release_of(runner: str) -> str | None:
    """The release that a runner names; None where it is the suite at its usual one."""
    return runner.partition("@")[2] or None


def title(runner: str) -> str:
    """A runner's name for people; an unknown one as it is."""
    suite, release = suite_of(runner), release_of(runner)
    name = TITLES.get(suite, suite)
    return name if release is None else f"{name} {release}"


def in_order(runners: Iterable[str]) -> list[str]:
    """Runners in report order: by suite, its usual release first, each once."""
    rank = {suite: place for place, suite in enumerate(SUITES)}
    return sorted(dict.fromkeys(runners), key=lambda runner: (rank.get(suite_of(runner), len(SUITES)), runner))


def check(runner: str) -> str:
    """The name itself, where it is one.

    Raises:
        ValueError: it names no suite, or what stands behind the `@` is no release.
    """
    suite, at, release = runner.partition("@")
    if suite not in SUITES:
        raise ValueError(f"{runner!r} is no suite: there are {', '.join(SUITES)}, alone or with a release (SUITE@0.1)")
    if at and not _RELEASE.fullmatch(release):
        raise ValueError(f"{runner!r}: write a release of letters, digits, dots and dashes behind the '@'")
    if at and suite == "native":
        raise ValueError(f"{runner!r}: the native runner is this project's own and has one release")
    return runner
