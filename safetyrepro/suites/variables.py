"""What a suite's process may see of its surroundings: an empty home, no network but loopback, none of our secrets.

Variables are let through by name. Everything else of the user's (`OPENAI_API_KEY`, `HF_TOKEN`, `INSPECT_*`, `HELM_*`,
proxies) stays outside, so that a suite runs the same for everybody and can neither spend nor leak a key.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

_PASSED = frozenset({"PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"})
_PASSED_PREFIXES = ("OPENBLAS_", "OMP_", "MKL_")
_FIXED = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_EVALUATE_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "NO_PROXY": "127.0.0.1,localhost,::1",
    "PYTHONHASHSEED": "0",
    "PYTHONUNBUFFERED": "1",
    "PYTHONUTF8": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "NO_COLOR": "1",
    "TERM": "dumb",
    "COLUMNS": "160",
}


def lay_out(scratch: Path) -> Path:
    """Make the folders that `variables` names below `scratch`, and return the empty folder to start a runner in.

    The empty `.env` ends the search that Inspect AI makes up the tree for settings; the empty `punkt_tab` keeps nltk,
    which HELM imports, from trying to download its data.
    """
    for name in ("home", "tmp", "nltk/tokenizers/punkt_tab", "work"):
        (scratch / name).mkdir(parents=True)
    (scratch / "work" / ".env").touch()
    return scratch / "work"


def variables(scratch: Path, extra: Mapping[str, str], *, own_packages: bool = False) -> dict[str, str]:
    """The whole environment of a runner's process.

    Args:
        scratch: A folder that `lay_out` prepared; it stands for the user's home and for the temporary folder.
        extra: The run's own variables, such as its URL and token.
        own_packages: Whether the runner uses our own interpreter, whose packages may be the user's.
    """
    passed = {name: value for name, value in os.environ.items() if name in _PASSED or name.startswith(_PASSED_PREFIXES)}
    places = {
        "HOME": scratch / "home",
        "HF_HOME": scratch / "home" / "huggingface",
        "TMPDIR": scratch / "tmp",
        "NLTK_DATA": scratch / "nltk",
    }
    user_site = {} if own_packages else {"PYTHONNOUSERSITE": "1"}
    return {**passed, **_FIXED, **{name: str(path) for name, path in places.items()}, **user_site, **extra}
