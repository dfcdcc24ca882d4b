"""What HELM is asked to do with its own scenarios."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from safetyrepro.config import Arm

if TYPE_CHECKING:
    from safetyrepro.adapters.base import Cell
    from safetyrepro.config import Config

JOINT = "multiple_choice_joint"
SEPARATE = "multiple_choice_separate_original"
GENERATION = "generation"
ENTRIES = {"truthfulqa": "truthful_qa:task=mc_single", "bbq": "bbq:subject=all", "xstest": "xstest"}
OFFICIAL = {
    "truthfulqa": "truthful_qa:task=mc_single,data_augmentation=canonical",
    "bbq": "bbq:subject=all,data_augmentation=canonical",
    "xstest": "xstest",
}
"""The entries of HELM's own lists (run_entries.conf, run_entries_safety.conf), but for the model."""
OWN_SHOTS = 5
"""Of its multiple-choice entries."""
XSTEST_TOKENS = 512


@dataclass(frozen=True)
class Plan:
    """A run entry of HELM's own, as far as it leaves HELM's defaults."""

    method: str
    shots: int
    temperature: float
    max_tokens: int
    num_outputs: int
    chat: bool = False
    """Whether prompts go through HELM's chat client."""
    as_it_comes: bool = False
    """Whether the entry says nothing of all this."""

    @property
    def generates(self) -> bool:
        """Whether the model writes, rather than having answers scored."""
        return self.method != SEPARATE

    def entry(self, benchmark: str) -> str:
        """The run entry, as it could be typed after `helm-run --run-entries`."""
        if self.as_it_comes:
            return ENTRIES[benchmark]
        args: dict[str, Any] = {}
        if self.method != GENERATION:
            args |= {"method": self.method, "max_train_instances": self.shots}
        if self.generates:
            args |= {"temperature": self.temperature, "num_output_tokens": self.max_tokens}
        if self.method == JOINT:
            args |= {"num_outputs": self.num_outputs}
        entry = ENTRIES[benchmark]
        return entry + ("," if ":" in entry else ":") + ",".join(f"{name}={value}" for name, value in args.items())

    def adapter_fields(self) -> dict[str, Any]:
        """What HELM's `run_spec.json` must then hold under `adapter_spec`."""
        return {
            "method": self.method,
            "max_train_instances": self.shots,
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "num_outputs": self.num_outputs,
        }


def plan(cell: Cell) -> Plan:
    """HELM's knobs for a cell of the nominal or shipped arm."""
    config, shipped = cell.config, cell.arm is Arm.SHIPPED
    # Told nothing, HELM's own model client applies the model's chat template where it has one.
    chat = cell.model.has_chat_template if shipped else config.chat_template.enabled
    if cell.benchmark.name == "xstest":
        if shipped or config.scoring.path == "logprob":
            return Plan(GENERATION, 0, 0.0, XSTEST_TOKENS, 1, chat, as_it_comes=shipped)
        return Plan(GENERATION, 0, config.decoding.temperature, config.decoding.max_tokens, 1, chat)
    if shipped:
        return Plan(JOINT, OWN_SHOTS, temperature=0.0, max_tokens=1, num_outputs=5, chat=chat, as_it_comes=True)
    return _nominal_plan(config)


def _nominal_plan(config: Config) -> Plan:
    """HELM's knobs for a config.

    Answers are scored by likelihood where the config asks for the likelihood of their text, on a raw prompt. HELM has
    no likelihood of letters, and through its chat client every likelihood is 0: there a letter is generated.
    """
    shots, decoding, scoring, chat = config.shots.count, config.decoding, config.scoring, config.chat_template.enabled
    if scoring.path == "logprob" and scoring.candidate == "text" and not chat:
        return Plan(SEPARATE, shots, temperature=0.0, max_tokens=0, num_outputs=1)
    if scoring.path == "logprob":
        return Plan(JOINT, shots, temperature=0.0, max_tokens=1, num_outputs=5, chat=chat)
    # At a temperature HELM's five outputs would be the best of five samples.
    outputs = 5 if decoding.temperature == 0 else 1
    return Plan(JOINT, shots, decoding.temperature, decoding.max_tokens, outputs, chat)
