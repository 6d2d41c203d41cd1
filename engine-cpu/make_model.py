"""Make a small, untrained Llama model with a tokenizer and chat template in a folder; nothing is downloaded.

    ENGINE/bin/python make_model.py tiny FOLDER     2 M parameters, for life-cycle and API tests
    ENGINE/bin/python make_model.py small FOLDER    26 M parameters, where TTFT and TPOT values matter: a `tiny` server
                                                    is bound by its HTTP side, so its tokens arrive in clumps

The text that the tokenizer learns from is the language reference that every Python carries (`pydoc_data.topics`), so
the same Python makes the same model on every machine. The weights are random with a fixed seed: answers are noise,
timings are real.
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from pydoc_data.topics import topics

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

VOCABULARY = 2048
MAX_POSITIONS = 2048
END_OF_TEXT, TURN_START, TURN_END, PADDING = "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<pad>"
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


@dataclass(frozen=True)
class Shape:
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int


SHAPES = {
    "tiny": Shape(hidden=256, intermediate=512, layers=2, heads=4, kv_heads=2),
    "small": Shape(hidden=512, intermediate=1536, layers=8, heads=8, kv_heads=4),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=sorted(SHAPES))
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    tokenizer = make_tokenizer()
    tokenizer.save_pretrained(options.folder)
    model = make_model(SHAPES[options.kind], tokenizer)
    model.save_pretrained(options.folder, safe_serialization=True)
    parameters = sum(weights.numel() for weights in model.parameters())
    sys.stdout.write(f"{options.kind}: {parameters:,} parameters, vocabulary of {len(tokenizer):,}\n")


def make_tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer: every text can be encoded, and no token is unknown."""
    bpe = Tokenizer(models.BPE(unk_token=None))
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[END_OF_TEXT, TURN_START, TURN_END, PADDING],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator((topics[name] for name in sorted(topics)), trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        bos_token=END_OF_TEXT,
        eos_token=TURN_END,
        pad_token=PADDING,
        model_max_length=MAX_POSITIONS,
        chat_template=CHAT_TEMPLATE,
    )


def make_model(shape: Shape, tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        max_position_embeddings=MAX_POSITIONS,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        tie_word_embeddings=True,
        torch_dtype="bfloat16",
    )
    return LlamaForCausalLM(config).to(torch.bfloat16)


if __name__ == "__main__":
    main()
