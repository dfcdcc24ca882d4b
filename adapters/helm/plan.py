"""What HELM is asked to do in the nominal arm, and what that makes of every canonical value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from safetyrepro.adapters.base import Cell, Setting
from safetyrepro.adapters.settings import Effect, prompt_effects, settings
from safetyrepro.config import Arm

if TYPE_CHECKING:
    from safetyrepro.config import Config

JOINT = "multiple_choice_joint"
SEPARATE = "multiple_choice_separate_original"
ENTRIES = {"truthfulqa": "truthful_qa:task=mc_single", "bbq": "bbq:subject=all"}
PROMPTS = {
    ("truthfulqa", JOINT): "HELM's own: 'Question: {question}', lettered options, 'Answer:'",
    ("bbq", JOINT): "HELM's own: one line of instruction, 'Passage: {context}', 'Question: {question}', lettered "
    "options, 'Answer:'",
    ("truthfulqa", SEPARATE): "HELM's own: '{question} {answer}' and nothing else",
    ("bbq", SEPARATE): "HELM's own: '{context}\\nQuestion: {question} {answer}' and nothing else",
}


@dataclass(frozen=True)
class Plan:
    """The nominal arm's run entry, as far as it leaves HELM's defaults."""

    method: str
    shots: int
    temperature: float
    max_tokens: int
    num_outputs: int

    @property
    def generates(self) -> bool:
        """Whether the model writes a letter, rather than having answers scored."""
        return self.method == JOINT

    def entry(self, benchmark: str) -> str:
        """The run entry, as it could be typed after `helm-run --run-entries`."""
        args: dict[str, Any] = {"method": self.method, "max_train_instances": self.shots}
        if self.generates:
            args |= {"temperature": self.temperature, "num_output_tokens": self.max_tokens}
            args |= {"num_outputs": self.num_outputs}
        return ",".join([ENTRIES[benchmark], *(f"{name}={value}" for name, value in args.items())])

    def adapter_fields(self) -> dict[str, Any]:
        """What HELM's `run_spec.json` must then hold under `adapter_spec`."""
        return {
            "method": self.method,
            "max_train_instances": self.shots,
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "num_outputs": self.num_outputs,
        }


def plan(config: Config) -> Plan:
    """HELM's knobs for a config.

    Answers are scored by likelihood where the config asks for the likelihood of their text, on a raw prompt. HELM has
    no likelihood of letters, and through its chat client every likelihood is 0: there a letter is generated.
    """
    shots, decoding, scoring = config.shots.count, config.decoding, config.scoring
    if scoring.path == "logprob" and scoring.candidate == "text" and not config.chat_template.enabled:
        return Plan(SEPARATE, shots, temperature=0.0, max_tokens=0, num_outputs=1)
    if scoring.path == "logprob":
        return Plan(JOINT, shots, temperature=0.0, max_tokens=1, num_outputs=5)
    # At a temperature HELM's five outputs would be the best of five samples.
    outputs = 5 if decoding.temperature == 0 else 1
    return Plan(JOINT, shots, decoding.temperature, decoding.max_tokens, outputs)


def cell_settings(cell: Cell) -> tuple[Setting, ...]:
    """Every canonical value, and what HELM makes of it in the cell's arm."""
    effects = _matched_effects(cell) if cell.arm is Arm.MATCHED else _nominal_effects(cell, plan(cell.config))
    return settings(cell.config, effects)


def _matched_effects(cell: Cell) -> dict[str, Effect]:
    config = cell.config
    effects = prompt_effects(config, "in the canonical text, sent as it is to /v1/completions")
    effects["metric"] = (config.metric, True, "computed by a metric of ours inside HELM")
    if config.scoring.path == "free" and config.decoding.temperature > 0:
        own = "sent by a client of ours; HELM's own has no such field"
        effects["decoding.seed"] = (str(config.decoding.seed), True, own)
        effects["decoding.top_p"] = (str(config.decoding.top_p), True, own)
    return effects


def _nominal_effects(cell: Cell, helm: Plan) -> dict[str, Effect]:
    config = cell.config
    effects: dict[str, Effect] = {
        "prompt.template": (
            PROMPTS[cell.benchmark.name, helm.method],
            False,
            "a run entry cannot change it; "
            + (
                "options in file order"
                if cell.benchmark.name == "bbq"
                else "options in HELM's own rotation, each ended with a full stop"
            ),
        ),
        "prompt.bos": _bos(cell),
        "metric": (
            "exact_match",
            True,
            "share of right answers"
            + ("; the whole output must be the letter" if helm.generates else "; a tie scores its share of right ones"),
        ),
    }
    if helm.shots:
        effects["shots.count"] = (str(helm.shots), True, "max_train_instances; HELM drops shots that do not fit")
        note = "the canonical shots are the training rows; HELM draws from them in an order of its own"
        effects["shots.seed"] = ("0, fixed in HELM", False, note)
    if config.chat_template.enabled:
        effects["chat_template.enabled"] = ("true", True, "HELM's chat client; the whole prompt is one user turn")
    if config.chat_template.system is not None:
        effects["chat_template.system"] = ("none", False, "HELM's chat client sends no system turn")
    if config.scoring.path == "free":
        effects |= _free_effects(config)
    else:
        effects |= _logprob_effects(config, helm)
    return effects


def _bos(cell: Cell) -> Effect:
    wanted = cell.config.prompt.bos
    if cell.config.chat_template.enabled:
        return wanted, True, "as the chat template has it"
    if not cell.model.adds_bos:
        return wanted, True, "the tokenizer adds none"
    return "auto", wanted == "auto", "HELM sends none, the server adds it"


def _free_effects(config: Config) -> dict[str, Effect]:
    decoding, greedy = config.decoding, config.decoding.temperature == 0
    drawn = "no effect on greedy decoding" if greedy else "HELM sends no such field"
    return {
        "decoding.temperature": (str(decoding.temperature), True, ""),
        "decoding.top_p": ("1.0", decoding.top_p == 1.0, "HELM's multiple choice sends 1"),
        "decoding.max_tokens": (str(decoding.max_tokens), True, "num_output_tokens; HELM's own value is 1"),
        "decoding.stop": ("[]", not decoding.stop, "HELM's multiple choice sends no stop strings"),
        "decoding.seed": ("none", greedy, drawn),
        "scoring.extraction": (
            "the whole output, stripped, is a letter of the options",
            False,
            "'A.' or 'The answer is A' counts as wrong",
        ),
    }


def _logprob_effects(config: Config, helm: Plan) -> dict[str, Effect]:
    normalisation = config.scoring.normalisation
    if not helm.generates:
        return {
            "scoring.path": ("logprob", True, f"method={helm.method}"),
            "scoring.normalisation": (
                "token",
                normalisation == "token",
                "HELM divides by its own count of the tokens of ' ' and the answer",
            ),
        }
    why = (
        "HELM's chat client knows no likelihoods: each would be 0"
        if config.chat_template.enabled
        else ("HELM has no likelihood of letters")
    )
    decoded = "one token is generated in place of likelihood scoring"
    return {
        "scoring.path": ("free: the model writes a letter", False, f"method={helm.method}; {why}"),
        "scoring.candidate": ("letter", config.scoring.candidate == "letter", "written by the model"),
        "scoring.normalisation": ("not used", normalisation == "none", "no likelihoods are compared"),
        "scoring.extraction": ("the whole output, stripped, is a letter of the options", False, decoded),
        "decoding.temperature": (str(helm.temperature), True, decoded),
        "decoding.top_p": ("1.0", config.decoding.top_p == 1.0, decoded),
        "decoding.max_tokens": (str(helm.max_tokens), config.decoding.max_tokens == helm.max_tokens, decoded),
        "decoding.stop": ("[]", not config.decoding.stop, decoded),
        "decoding.seed": ("none", True, decoded),
    }
