"""The canonical config: one description of an evaluation that every suite is asked to follow.

`config_id` is the SHA-256 of the RFC 8785 canonical JSON of everything that changes what is measured, and of
nothing else: not the models, not the runners, not a label, not a path on one machine. Two models share it.
"""

from __future__ import annotations

import hashlib
import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import rfc8785
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from safetyrepro.runners import SUITES, check

LARGEST_SEED = 2**32 - 1
"""What every suite's random generator takes."""
UNVERIFIED: Literal["unverified"] = "unverified"
SHA256 = re.compile(r"[0-9a-f]{64}")
METRICS: dict[str, tuple[str, ...]] = {
    "truthfulqa": ("mc1", "mc2"),
    "bbq": ("accuracy",),
    "toxigen": ("accuracy",),
    "crows_pairs": ("parity",),
    "xstest": ("accuracy",),
}
"""What a benchmark calls its scores."""
UNLETTERED: tuple[str, ...] = ("crows_pairs", "xstest")
"""Benchmarks whose prompts list no options."""
JUDGED: tuple[str, ...] = ("xstest",)
"""Benchmarks that suites' own tasks score by a judge."""
ENGINE_FIELDS: tuple[str, ...] = (
    "quant",
    "double_quant",
    "compute_dtype",
    "decode",
    "mode",
    "batch_rows",
    "length_bucket",
    "threads",
    "pack_tokens",
    "cache_mb",
)
"""What `ModelSpec` says about the engine's numerics."""
SHARED_FIELDS: tuple[str, ...] = ("pack_tokens", "cache_mb")
"""Those of `ENGINE_FIELDS` that only shared mode has."""


class Arm(StrEnum):
    """How a suite is asked to run the config (see docs/arms.md)."""

    SHIPPED = "shipped"
    NOMINAL = "nominal"
    MATCHED = "matched"


def _hash_or_unverified(value: str | None) -> str | None:
    if value is not None and value != UNVERIFIED and not SHA256.fullmatch(value):
        raise ValueError("give the 64 lower-case hex digits of a SHA-256, or 'unverified' until it is resolved")
    return value


Hash = Annotated[str | None, AfterValidator(_hash_or_unverified)]


class Strict(BaseModel):
    """A frozen model that refuses keys it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ItemSubset(Strict):
    """Which items: `count` drawn by `seed`, or exactly `ids`; all of them where neither is given."""

    count: int | None = Field(default=None, ge=1, le=10_000_000)
    """How many items are drawn; None takes all that the shot pool leaves."""
    seed: int = Field(default=0, ge=0, le=LARGEST_SEED)
    """Seed of the draw; the same items on every machine."""
    ids: tuple[str, ...] | None = Field(default=None, min_length=1)
    """Item ids, in order, instead of a draw."""

    @model_validator(mode="after")
    def _one_way(self) -> ItemSubset:
        if self.ids is not None and self.count is not None:
            raise ValueError("give either ids or count, not both")
        if self.ids is not None and len(set(self.ids)) != len(self.ids):
            raise ValueError("ids holds the same id twice")
        return self


class BenchmarkSpec(Strict):
    """The data: which benchmark, from which source, which items."""

    name: Literal["truthfulqa", "bbq", "toxigen", "crows_pairs", "xstest"]
    source: Literal["pocket", "file", "hub"] = "pocket"
    """`pocket`: our own items, not the benchmark. `file`: the official file in the data folder. `hub`: from the hub."""
    path: str | None = None
    """File or folder of the official data, relative to the data folder; None takes the usual place."""
    revision: str | None = None
    """Hub commit; `unverified` until somebody resolves it."""
    sha256: Hash = None
    """SHA-256 of the data as read (docs/data.md says over what); `unverified` until resolved; checked otherwise."""
    categories: tuple[str, ...] | None = Field(default=None, min_length=1)
    """Only these categories (BBQ: file names without ending; ToxiGen groups, CrowS-Pairs bias types, XSTest types)."""
    items: ItemSubset = ItemSubset()

    @field_validator("categories")
    @classmethod
    def _in_one_order(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return None if value is None else tuple(sorted(set(value)))

    @model_validator(mode="after")
    def _hub_needs_revision(self) -> BenchmarkSpec:
        if self.source == "hub" and self.revision is None:
            raise ValueError("a hub source needs a revision: a commit, or 'unverified' until it is resolved")
        return self


class PromptSpec(Strict):
    """The canonical prompt."""

    template: str = "minimal"
    """Name of a template of the benchmark (`minimal`, ...), see docs/templates.md."""
    bos: Literal["auto", "never"] = "auto"
    """`auto`: a raw prompt starts with the BOS token where the model's tokenizer adds one."""
    ask: Literal["free", "always"] = "free"
    """Whether the line that asks for a letter stands in prompts of free scoring alone, or wherever options are listed:
    `always` gives letters scored by likelihood the same prompt as generated answers."""


class ShotSpec(Strict):
    """Worked examples in front of the item, from a pool that is disjoint from the items."""

    count: int = Field(default=0, ge=0, le=1000)
    seed: int = Field(default=0, ge=0, le=LARGEST_SEED)
    pool: int = Field(default=8, ge=0, le=10_000)
    """How many items are reserved for shots (and for the training split that some suites insist on)."""
    ids: tuple[str, ...] | None = None
    """Shots by id, in order, instead of the first `count` of the pool."""

    @model_validator(mode="after")
    def _fits(self) -> ShotSpec:
        if self.ids is not None and len(self.ids) != self.count:
            raise ValueError(f"ids names {len(self.ids)} shots, count says {self.count}: make them equal")
        if self.count > self.pool:
            raise ValueError(f"count is {self.count}, the pool holds {self.pool}: lower count or raise pool")
        return self


class ChatSpec(Strict):
    """Whether the model's own chat template is applied, and with which system text."""

    enabled: bool = False
    system: str | None = None

    @model_validator(mode="after")
    def _system_needs_template(self) -> ChatSpec:
        if self.system is not None and not self.enabled:
            raise ValueError("system text needs a chat template: set enabled to true or remove system")
        return self


class DecodingSpec(Strict):
    """How text is generated, where it is."""

    temperature: float = Field(default=0.0, ge=0.0, le=2.0)
    """0 is greedy."""
    top_p: float = Field(default=1.0, gt=0.0, le=1.0)
    max_tokens: int = Field(default=16, ge=1, le=4096)
    stop: tuple[str, ...] = ("\n",)
    """Up to four stop strings (the most a chat request of lm-evaluation-harness keeps)."""
    seed: int = Field(default=0, ge=0, le=LARGEST_SEED)

    @field_validator("stop")
    @classmethod
    def _four_stops(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if len(value) > 4 or any(not text for text in value):
            raise ValueError("give up to four stop strings, none of them empty")
        return value


class ScoringSpec(Strict):
    """How an answer is read: from the likelihood of candidates, or from generated text."""

    path: Literal["logprob", "free"] = "logprob"
    candidate: Literal["text", "letter"] = "text"
    """What is scored: the option's text, or its letter in a prompt that lists the options."""
    normalisation: Literal["none", "char", "byte", "token"] = "none"
    """What a candidate's summed logprob is divided by (`logprob` only)."""
    extraction: Literal["strict", "lenient"] = "strict"
    """Which extraction rule gives the score (`free` only); the other one's reading is recorded beside it."""


class ModelSpec(Strict):
    """One model and its numerics; not part of `config_id`."""

    id: str = Field(min_length=1)
    """A pulled model's name, a folder, a GGUF file or a hub id."""
    revision: str | None = None
    """Hub commit (`unverified` until resolved); only for hub ids."""
    weights_sha256: Hash = None
    """SHA-256 of the weights, checked at load; `unverified` until resolved; None records what is found."""
    source_quant: str | None = None
    """Quantisation the file already carries, such as `Q4_1`; disclosed."""
    quant: Literal["nf4", "int8", "none"] = "nf4"
    double_quant: bool = False
    """bitsandbytes' nested quantisation of the NF4 scales."""
    compute_dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    decode: Literal["once", "per_call"] = "once"
    """Quantised weights decoded once before the first forward, or used by the library's kernels on every call."""
    mode: Literal["exact", "shared"] = "exact"
    """`exact`: a result depends on the token ids alone. `shared`: beginnings in common are computed once."""
    batch_rows: int = Field(default=1, ge=1, le=64)
    """Rows of every forward pass (exact mode keeps the shape fixed and pads empty rows)."""
    length_bucket: int = Field(default=1, ge=1, le=1024)
    """Sequences are right-padded to a multiple of this many tokens."""
    threads: int | None = Field(default=None, ge=1, le=1024)
    """CPU threads of the engine; None takes `OMP_NUM_THREADS`, else the cores that the process may use."""
    pack_tokens: int = Field(default=256, ge=1, le=16384)
    """Tokens of a forward pass in shared mode, those of many sequences side by side."""
    cache_mb: int = Field(default=1024, ge=1, le=1_000_000)
    """MB of keys and values that shared mode holds at most."""
    upstream: str | None = None
    """Base URL of a server of the OpenAI kind that serves the model under `id`; its numerics are its own."""
    tokenizer: str | None = None
    """Folder of the upstream model's tokenizer."""

    @model_validator(mode="after")
    def _numerics_go_together(self) -> ModelSpec:
        for name in SHARED_FIELDS if self.mode == "exact" else ("batch_rows", "length_bucket"):
            if getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"{name} means nothing in mode {self.mode}: remove {name}, or change mode")
        if self.quant == "int8" and self.double_quant:
            raise ValueError("double_quant nests the scales of NF4, and quant is int8: remove double_quant")
        if (self.quant, self.decode, self.mode) == ("int8", "per_call", "shared"):
            raise ValueError(
                "the library's int8 kernels choose outliers over all tokens of a forward pass, so that mode shared "
                "would mix sequences: set decode to once, or mode to exact"
            )
        return self

    @model_validator(mode="after")
    def _upstream_keeps_its_numerics(self) -> ModelSpec:
        if (self.upstream is None) != (self.tokenizer is None):
            raise ValueError("upstream and tokenizer go together: name the server's URL and its tokenizer's folder")
        for name in ENGINE_FIELDS if self.upstream is not None else ():
            if getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"{name} is the engine's, and an upstream server has its own: remove {name}")
        return self


class JudgeSpec(Strict):
    """The judge of responses, where a suite's own task has a model grade them; its key is SAFETYREPRO_JUDGE_KEY's."""

    url: str = Field(pattern=r"^https?://[^@?#\s]+$")
    """Base URL of a server of the OpenAI kind, ending in `/v1` as a rule; not part of `config_id`."""
    model: str = Field(min_length=1)
    """The judge's name there."""


class Config(Strict):
    """One evaluation, as every suite is asked to run it."""

    version: Literal[1] = 1
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    """A label for people; not part of `config_id`."""
    benchmark: BenchmarkSpec
    prompt: PromptSpec = PromptSpec()
    shots: ShotSpec = ShotSpec()
    chat_template: ChatSpec = ChatSpec()
    decoding: DecodingSpec = DecodingSpec()
    scoring: ScoringSpec = ScoringSpec()
    metric: str
    """The benchmark's own name for its score: TruthfulQA `mc1` or `mc2`, CrowS-Pairs `parity`, else `accuracy`."""
    judge: JudgeSpec | None = None
    """Who judges in suites' own tasks that want a judge (XSTest in HELM and Inspect AI); None leaves them absent."""
    models: tuple[ModelSpec, ...] = Field(min_length=1)
    suites: tuple[str, ...] = Field(default=SUITES, min_length=1)
    """Runners: a suite, or a suite at another release (`inspect_ai@0.3.258`), see docs/suites.md."""
    locks: dict[str, str] = Field(default_factory=dict)
    """Lock files of one's own, by the runner that they are for; not part of `config_id`."""
    arms: tuple[Arm, ...] = Field(default=(Arm.NOMINAL, Arm.MATCHED), min_length=1)

    @field_validator("suites", "arms")
    @classmethod
    def _once_each(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(value)) != len(value):
            raise ValueError("names the same one twice")
        return value

    @field_validator("suites")
    @classmethod
    def _runners(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(check(runner) for runner in value)

    @model_validator(mode="after")
    def _locks_are_for_runners(self) -> Config:
        for runner in self.locks:
            if runner not in self.suites or "@" not in runner:
                raise ValueError(f"locks names {runner!r}: name a runner of suites with an '@', such as helm@mine")
        return self

    @model_validator(mode="after")
    def _possible(self) -> Config:
        metrics = METRICS[self.benchmark.name]
        if self.metric not in metrics:
            raise ValueError(f"metric is {self.metric!r}: {self.benchmark.name} has {' and '.join(metrics)}")
        if self.benchmark.name == "crows_pairs" and self.scoring.path == "free":
            raise ValueError(
                "scoring.path is free: crows_pairs compares two sentences by likelihood alone, set it to logprob"
            )
        if self.judge is not None and self.benchmark.name not in JUDGED:
            raise ValueError(f"judge is for {' and '.join(JUDGED)}: nobody judges {self.benchmark.name}, remove judge")
        if self.benchmark.name in UNLETTERED and self.scoring.candidate == "letter":
            raise ValueError(
                f"scoring.candidate is letter: {self.benchmark.name} lists no options with letters, set it to text"
            )
        if self.scoring.path == "logprob" and self.decoding.temperature > 0:
            raise ValueError("decoding.temperature is over 0 with logprob scoring, which decodes nothing: set it to 0")
        if self.scoring.path == "free" and self.scoring.normalisation != "none":
            raise ValueError("scoring.normalisation needs logprob scoring: set it to none")
        if self.metric == "mc2" and (self.scoring.path, self.scoring.candidate) != ("logprob", "text"):
            raise ValueError("metric mc2 is a probability mass: it needs scoring path logprob and candidate text")
        if len({model_key(model) for model in self.models}) != len(self.models):
            raise ValueError("models holds the same model with the same numerics twice")
        return self


def canonical_sha256(value: Any) -> str:
    """SHA-256 (hex) of the RFC 8785 canonical JSON of `value`."""
    return hashlib.sha256(rfc8785.dumps(value)).hexdigest()


def identity(config: Config) -> dict[str, Any]:
    """What `config_id` covers: the config less name, models, runners, arms and local paths."""
    body = config.model_dump(mode="json", exclude={"name", "models", "suites", "locks", "arms"})
    del body["benchmark"]["path"]
    # The default is left out, so that configs keep the ids that they had before there was a choice.
    if body["prompt"]["ask"] == "free":
        del body["prompt"]["ask"]
    judge = body.pop("judge")
    return body if judge is None else {**body, "judge": judge["model"]}


def config_id(config: Config) -> str:
    """The id that two models and all suites share (64 hex digits)."""
    return canonical_sha256(identity(config))


def model_key(model: ModelSpec) -> str:
    """The id of a model with its numerics (64 hex digits); an upstream's URL and local paths are no part of it."""
    without = {"upstream", "tokenizer", *(SHARED_FIELDS if model.mode == "exact" else ())}
    body = model.model_dump(mode="json", exclude=without)
    if model.upstream is not None:
        body = {name: value for name, value in body.items() if name not in ENGINE_FIELDS} | {"upstream": True}
    return canonical_sha256(body)


def cell_id(config: Config, model: ModelSpec, suite: str, arm: Arm) -> str:
    """The id of one cell: config, model, numerics, suite and arm (64 hex digits)."""
    return canonical_sha256({"config": config_id(config), "model": model_key(model), "suite": suite, "arm": arm.value})


def load_config(path: Path) -> Config:
    """Read a canonical config from a YAML file.

    Raises:
        InputError: naming file, line, field, the value found and what would be right.
    """
    from safetyrepro.strict_yaml import load_model

    return load_model(path, Config)
