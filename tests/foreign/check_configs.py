"""Loads directories' config.json and generation_config.json with transformers and compares the model they describe.
usage: python check_configs.py DIR...        (run by model_slow_test)

Each DIR has tensors.json: {name: shape} of every tensor that weft would write, and expected.json: fields that transformers must
have understood. Prints what is wrong, a line each; exit 1 if anything is, warnings of transformers included.
"""
import json
import logging
import os
import sys
import warnings

os.environ["HF_HUB_OFFLINE"] = "1"
import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig

wrong = []


class Collect(logging.Handler):
    def emit(self, record):
        wrong.append(f"{current}: transformers warns: {record.getMessage()}")


logging.getLogger("transformers").addHandler(Collect(level=logging.WARNING))
for current in sys.argv[1:]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        config = AutoConfig.from_pretrained(current)
        generation = GenerationConfig.from_pretrained(current)
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
    wrong += [f"{current}: Python warns: {w.message}" for w in caught]
    theirs = {name: list(tensor.shape) for name, tensor in model.state_dict().items()}
    if config.tie_word_embeddings:
        theirs.pop("lm_head.weight")
    ours = json.load(open(os.path.join(current, "tensors.json")))
    for name in sorted(set(theirs) | set(ours)):
        if theirs.get(name) != ours.get(name):
            wrong.append(f"{current}: {name}: transformers {theirs.get(name)}, weft {ours.get(name)}")
    expected = json.load(open(os.path.join(current, "expected.json")))
    if type(model).__name__ != expected.pop("architecture"):
        wrong.append(f"{current}: transformers makes a {type(model).__name__}")
    if generation.eos_token_id != config.eos_token_id:
        wrong.append(f"{current}: eos_token_id {generation.eos_token_id} and {config.eos_token_id}")
    for key, value in expected.items():
        found = getattr(config, key)
        if str(found).removeprefix("torch.") != value if isinstance(value, str) else found != value:
            wrong.append(f"{current}: {key} is {found!r}, should be {value!r}")
print("\n".join(wrong))
sys.exit(1 if wrong else 0)
