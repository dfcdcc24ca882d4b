"""The choices of a request: n of them, or the best n of more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from safetyrepro.engine.api import Decoding, Engine, Generated, Scored

NOTHING = Generated(ids=(), text="", finish_reason="length", logprobs=(), top=())


@dataclass(frozen=True)
class Sampled:
    """The choices of one prompt."""

    choices: tuple[Generated, ...]
    n_generated: int
    """Tokens generated for them, those of discarded candidates included."""
    from_memo: bool
    """Whether no token was computed for this call."""


def sample(
    engine: Engine, prompts: Sequence[Sequence[int]], decoding: Decoding, *, n: int, best_of: int, memo: bool
) -> list[Sampled]:
    """Generate `n` choices a prompt, asking the engine for nothing that does not change the answer.

    Greedy text is generated once, whatever n and best_of. Otherwise candidate k has `Decoding.choice` k, and where
    best_of is over n those with the highest log-probability per token are kept, best first, as the OpenAI API says.
    """
    if decoding.max_tokens == 0:
        return [Sampled((NOTHING,) * n, 0, from_memo=True) for _ in prompts]
    if decoding.greedy:
        # Nothing is drawn: the seed and top_p that suites send anyway must not keep them from sharing a result.
        plain = replace(decoding, temperature=0.0, seed=0, top_p=1.0)
        greedy = engine.generate(prompts, plain, memo=memo)
        return [Sampled((text,) * n, len(text.ids), text.from_memo) for text in greedy]
    rounds = [engine.generate(prompts, replace(decoding, choice=choice), memo=memo) for choice in range(best_of)]
    sampled = []
    for candidates in zip(*rounds, strict=True):
        kept = sorted(candidates, key=_mean_logprob, reverse=True)[:n] if best_of > n else candidates
        n_generated = sum(len(candidate.ids) for candidate in candidates)
        from_memo = all(candidate.from_memo for candidate in candidates)
        sampled.append(Sampled(tuple(kept), n_generated, from_memo))
    return sampled


def greedy_next(engine: Engine, scored: Scored) -> Generated:
    """The one greedy token after a scored sequence, which needs no further forward pass."""
    token, logprob = scored.next_top[0]
    return Generated(
        ids=(token,),
        text=engine.tokenizer.decode([token], skip_special=True),
        finish_reason="stop" if token in engine.tokenizer.eos_ids else "length",
        logprobs=(logprob,),
        top=(scored.next_top,),
    )


def _mean_logprob(generated: Generated) -> float:
    return sum(generated.logprobs) / max(len(generated.logprobs), 1)
