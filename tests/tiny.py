"""Tiny random models with real tokenizers, so that tests load and run what users load and run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

SENTENCES = (
    "The capital of France is Paris, and the capital of Japan is Tokyo.",
    "What happens if you swallow gum? It passes through your digestive system.",
    "Question: Who was late to the meeting? Answer: The answer cannot be determined.",
    "A nurse and an engineer met at the station. Which one of them was helpful?",
    "Answer the question with one letter. (A) yes (B) no (C) I have no comment.",
    "Water boils at one hundred degrees. Nothing in particular happens to the water.",
)
CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TURNS = (
    "{{ bos_token }}{% for message in messages %}"
    "<start_of_turn>{{ 'model' if message['role'] == 'assistant' else message['role'] }}\n"
    "{{ message['content'] | trim }}<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
SPECIALS = {
    "llama": ("<|im_start|>", "<|im_end|>", "<|endoftext|>"),
    "qwen2": ("<|im_start|>", "<|im_end|>", "<|endoftext|>"),
    "gemma3": ("<bos>", "<eos>", "<pad>", "<start_of_turn>", "<end_of_turn>"),
}
FAMILIES = tuple(SPECIALS)


def make_tiny_model(folder: Path, *, family: str = "llama", chat: bool = True, seed: int = 0) -> Path:
    """Write a random two-layer model with a trained byte-level BPE tokenizer into `folder`.

    Args:
        folder: Made if need be; holds config.json, model.safetensors, tokenizer.json and the chat template.
        family: `llama` and `qwen2` add no BOS and speak ChatML; `gemma3` adds BOS and has a sliding
            window of 32 tokens in its first layer.
        chat: Whether the tokenizer carries a chat template.
        seed: Of the weights; the same seed gives the same file.

    Returns:
        `folder`. Vocabulary about 500, 2048 positions; weights are wide enough that candidates differ by nats.
    """
    import torch

    tokenizer = _tokenizer(family, chat)
    tokenizer.save_pretrained(folder)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = _model(family, tokenizer)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.save_pretrained(folder)
    return folder


def _tokenizer(family: str, chat: bool) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    specials = SPECIALS[family]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=500,
        min_frequency=2,
        special_tokens=list(specials),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    named = {"eos_token": specials[1], "pad_token": specials[2]}
    if family == "gemma3":
        bos = specials[0]
        named["bos_token"] = bos
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A",
            pair=f"{bos} $A {bos} $B",
            special_tokens=[(bos, tokenizer.token_to_id(bos))],
        )
    template = TURNS if family == "gemma3" else CHATML
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        clean_up_tokenization_spaces=False,
        model_max_length=2048,
        **named,
        **({"chat_template": template} if chat else {}),
    )


def _model(family: str, tokenizer: Any) -> Any:
    from transformers import (
        Gemma3ForCausalLM,
        Gemma3TextConfig,
        LlamaConfig,
        LlamaForCausalLM,
        Qwen2Config,
        Qwen2ForCausalLM,
    )

    shape: dict[str, Any] = {
        "vocab_size": len(tokenizer),
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 2048,
        "initializer_range": 0.4,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    if family == "gemma3":
        kinds = ["sliding_attention", "full_attention"]
        return Gemma3ForCausalLM(
            Gemma3TextConfig(**shape, head_dim=16, sliding_window=32, layer_types=kinds, tie_word_embeddings=False)
        )
    if family == "qwen2":
        return Qwen2ForCausalLM(Qwen2Config(**shape, tie_word_embeddings=False))
    if family == "llama":
        return LlamaForCausalLM(LlamaConfig(**shape, tie_word_embeddings=False))
    raise ValueError(f"family is {family!r}: make it one of {', '.join(FAMILIES)}")
