"""Distributions that Hugging Face's generate draws from: its logits processors, in its order, on random logits.

usage: make.py OUT.json        (own work; transformers' version is in the file)
"""
import json
import sys

import torch
import transformers
from transformers.generation.logits_process import (LogitsProcessorList, RepetitionPenaltyLogitsProcessor, TemperatureLogitsWarper,
                                                    TopKLogitsWarper, TopPLogitsWarper)

cases = []
generator = torch.Generator().manual_seed(1)
for temperature, top_k, top_p, penalty in [(1.0, 0, 1.0, 1.0), (0.7, 0, 1.0, 1.0), (1.0, 5, 1.0, 1.0), (1.0, 0, 0.6, 1.0),
                                           (1.0, 0, 0.05, 1.0), (0.8, 7, 0.9, 1.0), (1.0, 0, 1.0, 1.5), (1.3, 10, 0.7, 1.2),
                                           (0.5, 1, 0.9, 1.0), (2.0, 100, 0.999, 0.8)]:
    logits = (torch.randn(17, generator=generator) * 3).tolist()
    logits[4] = logits[9] = logits[12]  # ties
    earlier = torch.randint(0, 17, (6,), generator=generator).tolist()
    processors = LogitsProcessorList()
    if penalty != 1:
        processors.append(RepetitionPenaltyLogitsProcessor(penalty))
    if temperature != 1:
        processors.append(TemperatureLogitsWarper(temperature))
    if top_k:
        processors.append(TopKLogitsWarper(top_k))
    if top_p < 1:
        processors.append(TopPLogitsWarper(top_p))
    scores = processors(torch.tensor([earlier]), torch.tensor([logits], dtype=torch.float64))
    cases.append(dict(temperature=temperature, top_k=top_k, top_p=top_p, repetition_penalty=penalty, logits=logits, earlier=earlier,
                      probabilities=torch.softmax(scores[0], -1).tolist()))
json.dump({"transformers": transformers.__version__, "cases": cases}, open(sys.argv[1], "w"), indent=1)
