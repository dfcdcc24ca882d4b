"""Where a model's files are: a pulled model, a folder, a GGUF file or a hub id, and the hash of its weights."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from safetyrepro.config import UNVERIFIED, ModelSpec
from safetyrepro.digest import file_sha256
from safetyrepro.engine.catalogue import catalogue
from safetyrepro.engine.gguf_folder import gguf_folder, licence, source_quant
from safetyrepro.errors import InputError

_SMALL = ("*.json", "*.jinja")
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")


@dataclass(frozen=True)
class Source:
    """A model's files, found and hashed."""

    name: str
    folder: Path
    """Hugging Face layout."""
    weights_sha256: str
    weights_verified: bool
    source_quant: str | None
    licence: str | None
    details: dict[str, str] = field(default_factory=dict)
    files_sha256: dict[str, str] = field(default_factory=dict)
    """SHA-256 by name of a folder's files beside its weights that decide what the model is and reads; of a GGUF file
    there are none."""


def find_source(spec: ModelSpec, progress: Callable[[str], None]) -> Source:
    """Find, hash and where need be convert or download what `spec.id` names.

    Raises:
        InputError: there is no such model, or it is another one than the hash or quantisation in `spec` says.
    """
    known = catalogue()
    path = Path(spec.id).expanduser()
    if spec.id in known:
        model = known[spec.id]
        if not model.pulled:
            raise InputError(f"Model {spec.id} is not pulled yet: run `safetyrepro models pull {spec.id}`.")
        return _gguf(model.path, spec, progress, name=model.name, expected=model.sha256, licence_name=model.licence)
    if spec.revision is not None and path.exists():
        raise InputError(f"Model {spec.id}: revision is {spec.revision!r}, which only a hub id has; remove it.")
    if path.is_dir():
        return _folder(path, spec, name=path.resolve().name)
    if path.is_file():
        if path.suffix != ".gguf":
            raise InputError(f"{path}: a model file is a .gguf file; name one, or a model's folder.")
        return _gguf(path, spec, progress, name=path.name, expected=None, licence_name=licence(path))
    if _HUB_ID.fullmatch(spec.id) and not spec.id.endswith(".gguf"):
        return _hub(spec, progress)
    raise InputError(
        f"Model {spec.id!r}: no such folder or file, no hub id (owner/name), and none of {', '.join(known)}."
    )


def weights_hash(folder: Path) -> tuple[str, str]:
    """The hash of a folder's safetensors weights, and the rule in words.

    One file: its SHA-256. Several: the SHA-256 of the lines `<sha256>  <name>`, sorted by name, as `sha256sum` prints
    them. Which files count is what transformers reads: `model.safetensors`, else those that the index names.

    Raises:
        InputError: the folder has no safetensors weights, or an index that names a file which is not there.
    """
    single = folder / "model.safetensors"
    if single.is_file():
        return file_sha256(single), "model.safetensors"
    index = folder / "model.safetensors.index.json"
    try:
        names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    except FileNotFoundError:
        raise InputError(
            f"{folder}: holds no model.safetensors and no model.safetensors.index.json; weights in other formats are"
            " not read."
        ) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise InputError(f"{index}: is no index of weights; fetch the model again.") from None
    bad = [name for name in names if Path(str(name)).name != name or not (folder / name).is_file()]
    if bad or not names:
        raise InputError(f"{index}: names {bad or 'no file'}, which {folder} does not hold; fetch the model again.")
    lines = "".join(f"{file_sha256(folder / name)}  {name}\n" for name in names)
    return hashlib.sha256(lines.encode()).hexdigest(), f"sha256sum of {len(names)} files, sorted by name, hashed"


def _verified(where: str, found: str, given: str | None) -> bool:
    if given in (None, UNVERIFIED):
        return False
    if found != given:
        raise InputError(f"{where}: the weights' sha256 is {found}, {given} is expected: these are other weights.")
    return True


def _quant(where: str, stated: str | None, found: str | None) -> str | None:
    if stated is not None and found is not None and stated != found:
        raise InputError(f"{where}: source_quant is {stated!r}, the file says {found!r}; correct it or remove it.")
    return stated or found


def _gguf(
    path: Path,
    spec: ModelSpec,
    progress: Callable[[str], None],
    *,
    name: str,
    expected: str | None,
    licence_name: str | None,
) -> Source:
    progress(f"checking {path.name}")
    found = file_sha256(path)
    verified = _verified(str(path), found, expected)
    verified = _verified(str(path), found, spec.weights_sha256) or verified
    quant = _quant(str(path), spec.source_quant, source_quant(path))
    folder = gguf_folder(path, found, progress)
    return Source(name, folder, found, verified, quant, licence_name, {"weights": f"GGUF file {path.name}"})


def _folder(folder: Path, spec: ModelSpec, *, name: str, details: dict[str, str] | None = None) -> Source:
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{folder}: holds no config.json; name a model's folder or a .gguf file.") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{folder / 'config.json'}: is not JSON ({error}); fetch the model again.") from None
    if not isinstance(config, dict):
        raise InputError(f"{folder / 'config.json'}: is no model config; fetch the model again.")
    if config.get("quantization_config"):
        raise InputError(f"{folder}: its weights are quantised already; give the unquantised model.")
    found, rule = weights_hash(folder)
    verified = _verified(str(folder), found, spec.weights_sha256)
    details = {**(details or {}), "weights": rule}
    return Source(name, folder, found, verified, spec.source_quant, _card_licence(folder), details, _files(folder))


def _files(folder: Path) -> dict[str, str]:
    # The index of a sharded model's weights is a list of the files that `weights_sha256` covers.
    small = {path for pattern in _SMALL for path in folder.glob(pattern) if not path.name.endswith(".index.json")}
    return {path.name: file_sha256(path) for path in sorted(small)}


def _card_licence(folder: Path) -> str | None:
    from huggingface_hub import ModelCard

    card = folder / "README.md"
    if not card.is_file():
        return None
    try:
        named = ModelCard.load(card).data.get("license")
    except Exception:
        return None
    return str(named) if named else None


def _hub(spec: ModelSpec, progress: Callable[[str], None]) -> Source:
    from huggingface_hub import snapshot_download

    if spec.revision is None:
        raise InputError(f"Model {spec.id}: a hub id needs a revision: a commit, or 'unverified' until it is resolved.")
    pinned = None if spec.revision == UNVERIFIED else spec.revision
    progress(f"fetching {spec.id} from the hub")
    try:
        found = snapshot_download(
            spec.id, revision=pinned, allow_patterns=["*.json", "*.safetensors", "*.model", "*.txt", "*.jinja", "*.md"]
        )
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"Model {spec.id} at {spec.revision}: cannot be fetched from the hub ({reason}).") from None
    folder = Path(found)
    return _folder(folder, spec, name=spec.id, details={"revision": spec.revision, "commit": folder.name})
