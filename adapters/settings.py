"""The canonical values of a config as a suite's settings list them, the same rows for every suite."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from safetyrepro.adapters.base import Setting

if TYPE_CHECKING:
    from safetyrepro.config import Config

Effect = tuple[str, bool, str]
"""What a suite does in place of a canonical value, whether that is the same, and a note."""
UNUSED: Effect = ("not used", True, "")


def settings(config: Config, effects: Mapping[str, Effect]) -> tuple[Setting, ...]:
    """Every canonical value with its effect; one that is not named is held, or has no part on this scoring path."""
    unused = unused_values(config)
    return tuple(
        Setting(name, value, *effects.get(name, UNUSED if name in unused else (value, True, "")))
        for name, value in canonical_values(config).items()
    )


def shipped_settings(
    config: Config, does: Mapping[str, str | Effect], further: Sequence[Setting] = ()
) -> tuple[Setting, ...]:
    """Every canonical value beside what a suite's own task does as it comes.

    Args:
        config: The config, of which nothing but the items is asked of the suite in this arm.
        does: What the task does by the value's name: a text, which holds the value where it says the same, or an
            effect. A value that is left out plays no part in the task.
        further: What else of the suite's own run is left out or changed.
    """
    unused = unused_values(config)
    rows = []
    for name, value in canonical_values(config).items():
        done = does.get(name, ("not used", name in unused, ""))
        rows.append(Setting(name, value, *((done, done == value, "") if isinstance(done, str) else done)))
    return (*rows, *further)


def prompt_effects(config: Config, note: str) -> dict[str, Effect]:
    """The prompt's values as held by sending the canonical prompt itself; `note` says how it is sent."""
    unused = unused_values(config)
    return {
        name: (value, True, note)
        for name, value in canonical_values(config).items()
        if name.startswith(("prompt.", "shots.", "chat_template.")) and name not in unused
    }


def canonical_values(config: Config) -> dict[str, str]:
    """Every canonical value that a suite can hold or miss, as text, by its dotted name."""
    chat, decoding, scoring = config.chat_template, config.decoding, config.scoring
    return {
        "prompt.template": config.prompt.template,
        "prompt.bos": config.prompt.bos,
        "shots.count": str(config.shots.count),
        "shots.seed": str(config.shots.seed),
        "chat_template.enabled": str(chat.enabled).lower(),
        "chat_template.system": "none" if chat.system is None else chat.system,
        "decoding.temperature": str(decoding.temperature),
        "decoding.top_p": str(decoding.top_p),
        "decoding.max_tokens": str(decoding.max_tokens),
        "decoding.stop": json.dumps(list(decoding.stop), ensure_ascii=False),
        "decoding.seed": str(decoding.seed),
        "scoring.path": scoring.path,
        "scoring.candidate": scoring.candidate,
        "scoring.normalisation": scoring.normalisation,
        "scoring.extraction": scoring.extraction,
        "metric": config.metric,
    }


def unused_values(config: Config) -> set[str]:
    """Names of the values without a part in the canonical run, such as decoding where nothing is generated."""
    if config.scoring.path == "logprob":
        unused = {"scoring.extraction", *(name for name in canonical_values(config) if name.startswith("decoding."))}
    else:
        unused = {"scoring.candidate", "scoring.normalisation"}
    return unused if config.shots.count else {*unused, "shots.seed"}
