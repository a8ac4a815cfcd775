"""Rotation frequencies by transformers' ROPE_INIT_FUNCTIONS (and the plain formula), for src/model/rope_test.cpp.
usage: python make.py > golden.json        (transformers 5.24.0, torch 2.15.0, CPU; computed there in float32)
"""
import json
import torch
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

CASES = [
    (64, 2048, dict(rope_type="default", rope_theta=10000.0)),
    (128, 131072, dict(rope_type="default", rope_theta=500000.0)),
    (16, 64, dict(rope_type="linear", rope_theta=10000.0, factor=4.0)),
    (16, 128, dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                   original_max_position_embeddings=16)),
    (128, 131072, dict(rope_type="llama3", rope_theta=500000.0, factor=32.0, low_freq_factor=1.0, high_freq_factor=4.0,
                       original_max_position_embeddings=8192)),
    (128, 131072, dict(rope_type="yarn", rope_theta=1000000.0, factor=4.0, original_max_position_embeddings=32768)),
    (64, 8192, dict(rope_type="yarn", rope_theta=10000.0, factor=16.0, original_max_position_embeddings=512, beta_fast=16.0,
                    beta_slow=2.0, truncate=False)),
    (32, 256, dict(rope_type="yarn", rope_theta=10000.0, factor=2.0, original_max_position_embeddings=128,
                   attention_factor=1.25)),
    (64, 163840, dict(rope_type="yarn", rope_theta=10000.0, factor=40.0, original_max_position_embeddings=4096, mscale=0.707,
                      mscale_all_dim=1.0)),
    (64, 1024, dict(rope_type="yarn", rope_theta=10000.0, factor=1.0, original_max_position_embeddings=1024)),
]
rows = []
for head_dim, positions, parameters in CASES:
    config = LlamaConfig(hidden_size=2 * head_dim, num_attention_heads=2, head_dim=head_dim, num_key_value_heads=2,
                         max_position_embeddings=positions, rope_parameters=dict(parameters))
    if parameters["rope_type"] == "default":
        inverse = 1.0 / parameters["rope_theta"] ** (torch.arange(0, head_dim, 2).float() / head_dim)
        factor = 1.0
    else:
        inverse, factor = ROPE_INIT_FUNCTIONS[parameters["rope_type"]](config, "cpu")
    rows.append(dict(head_dim=head_dim, max_position_embeddings=positions, rope_parameters=parameters,
                     inverse=[float(x) for x in inverse], attention_factor=float(factor)))
print(json.dumps(rows, indent=1))
