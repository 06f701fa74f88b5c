"""Two families of models as the package transformers has them, built from a configuration: nothing is downloaded."""

from __future__ import annotations

from typing import Any

import torch
from transformers import BertConfig, BertForSequenceClassification, LlamaConfig, LlamaForCausalLM

VOCABULARY, WIDTH = 1000, 64


def encoder(batch: int, length: int) -> tuple[torch.nn.Module, dict[str, Any]]:
    """A BERT that sorts texts into three classes, the last quarter of each text being padding."""
    config = BertConfig(
        vocab_size=VOCABULARY, hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=2 * WIDTH, num_labels=3, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    there = torch.ones(batch, length, dtype=torch.long)
    there[:, length - length // 4 :] = 0
    tokens, labels = torch.randint(0, VOCABULARY, (batch, length)), torch.randint(0, 3, (batch,))
    return BertForSequenceClassification(config), {"input_ids": tokens, "attention_mask": there, "labels": labels}


def decoder(batch: int, length: int) -> tuple[torch.nn.Module, dict[str, Any]]:
    """A Llama that predicts the next token, with fewer heads for keys than for queries."""
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=2 * WIDTH, max_position_embeddings=256,
        use_cache=False,  # torch.export knows no cache object of transformers
    )  # fmt: skip
    tokens = torch.randint(0, VOCABULARY, (batch, length))
    return LlamaForCausalLM(config), {"input_ids": tokens, "labels": tokens.clone()}
