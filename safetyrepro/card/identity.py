"""Where anybody gets a model that a run names: by the catalogue, or from the hub."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from safetyrepro.analysis.card.fact import given, not_applicable, not_disclosed, unverified
from safetyrepro.config import UNVERIFIED

_HUB = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


@dataclass(frozen=True)
class Identity:
    """What is public of a model's origin."""

    ids: dict[str, Any]
    """The fields `id` and `revision` of a `ModelCard`."""
    licence: Any


def model_identity(spec_id: str, revision: str | None, weights: str | None, source: str) -> Identity:
    """A model's id and revision, less what only one machine knows.

    Args:
        spec_id: as the config names the model: a catalogue's name, a hub id, a folder or a file.
        revision: the config's.
        weights: SHA-256 of the weights, as far as it is known.
        source: the file that says so.
    """
    from safetyrepro.engine.catalogue import catalogue

    known = catalogue()
    entry = next((one for one in known.values() if one.sha256 == weights), None)
    if entry is not None:
        packages = ", ".join(f"{package.name} {package.version}" for package in entry.packages)
        by_hash = "anchor_configs/models, found by the weights' hash"
        return Identity(
            {"id": given(entry.name, by_hash), "revision": given(packages, by_hash)}, given(entry.licence, by_hash)
        )
    nobody = not_disclosed("the run does not record one")
    if spec_id in known:
        reason = "the weights' hash is not the catalogue's"
        return Identity({"id": given(spec_id, source), "revision": not_disclosed(reason)}, nobody)
    if revision is not None and _HUB.fullmatch(spec_id):
        commit = unverified(None, "marked unverified") if revision == UNVERIFIED else given(revision, source)
        return Identity({"id": given(spec_id, source), "revision": commit}, nobody)
    return Identity(
        {
            "id": not_disclosed("the model was a folder or file of the machine that ran it"),
            "revision": not_applicable("a folder or file has none"),
        },
        nobody,
    )
