"""Equality with transformers: for a fresh random model of every family that weft knows, in both directions.

usage: compare_with_transformers.py WEFT_ENGINE [NAME...]

A model is made by transformers and saved; weft reads it. Compared: logits (1e-5), loss (5e-6 of the double-precision one), every
parameter's gradient (1e-5 relative, of the double-precision one), 20 greedy tokens after a prompt of 8. Then weft writes the
model, and transformers must load it without a warning and give the same bits.
"""
import json
import logging
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import warnings

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_NO_ADVISORY_WARNINGS"] = "0"

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

transformers.utils.logging.disable_progress_bar()
torch.set_num_threads(1)
engine = sys.argv[1]

VOCABULARY, LENGTH, PROMPT, NEW = 131, 40, 8, 20
common = dict(vocab_size=VOCABULARY, bos_token_id=1, eos_token_id=2, pad_token_id=0, initializer_range=0.1)
llama = dict(common, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=96, rms_norm_eps=1e-5)


def rope(kind, **more):
    return dict(llama, rope_parameters=dict(rope_type=kind, rope_theta=10000.0, **more))


MODELS = {
    "gpt2": ("GPT2", dict(common, n_positions=64, n_embd=48, n_layer=2, n_head=4)),
    "gpt2_inner": ("GPT2", dict(common, n_positions=64, n_embd=48, n_layer=3, n_head=2, n_inner=80, layer_norm_epsilon=1e-3)),
    "gpt2_erf": ("GPT2", dict(common, n_positions=64, n_embd=48, n_layer=2, n_head=4, activation_function="gelu")),
    "gpt2_unscaled": ("GPT2", dict(common, n_positions=64, n_embd=48, n_layer=2, n_head=4, scale_attn_weights=False)),
    "gpt2_untied": ("GPT2", dict(common, n_positions=64, n_embd=48, n_layer=2, n_head=4, tie_word_embeddings=False)),
    "llama2": ("Llama", dict(llama, num_key_value_heads=4, tie_word_embeddings=False)),
    "llama3": ("Llama", dict(llama, tie_word_embeddings=False, rope_parameters=dict(
        rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=16))),
    "llama_biases": ("Llama", dict(llama, attention_bias=True, mlp_bias=True, tie_word_embeddings=True)),
    "llama_head_dim": ("Llama", dict(llama, head_dim=24, tie_word_embeddings=True)),
    "rope_linear": ("Llama", rope("linear", factor=3.0)),
    "rope_yarn": ("Llama", rope("yarn", factor=4.0, original_max_position_embeddings=24)),
    "rope_yarn_ramp": ("Llama", rope("yarn", factor=4.0, original_max_position_embeddings=24, beta_fast=8.0, beta_slow=2.0,
                                     attention_factor=1.3, truncate=False)),
    "smollm2": ("Llama", dict(common, hidden_size=72, intermediate_size=192, num_hidden_layers=3, num_attention_heads=9,
                              num_key_value_heads=3, max_position_embeddings=96, rms_norm_eps=1e-5, tie_word_embeddings=True,
                              rope_parameters=dict(rope_type="default", rope_theta=100000.0))),
    "mistral": ("Mistral", dict(llama, sliding_window=None, tie_word_embeddings=False)),
    "mistral_window": ("Mistral", dict(llama, sliding_window=9, tie_word_embeddings=False)),
    "qwen2": ("Qwen2", dict(llama, tie_word_embeddings=True)),
    "qwen2_window": ("Qwen2", dict(llama, tie_word_embeddings=False, use_sliding_window=True, sliding_window=7,
                                   max_window_layers=0)),
    "qwen3": ("Qwen3", dict(llama, head_dim=16, tie_word_embeddings=True)),
    "qwen3_biases": ("Qwen3", dict(llama, head_dim=32, attention_bias=True, tie_word_embeddings=False)),
}


def weft(*arguments, code=0):
    """Runs the engine; the one JSON line that it printed, or its error text."""
    done = subprocess.run([engine, *map(str, arguments), "--json"], capture_output=True, text=True)
    assert done.returncode == code, f"{arguments}: exit code {done.returncode}, expected {code}: {done.stderr}"
    return json.loads(done.stdout) if code == 0 else done.stderr


class Listener(logging.Handler):
    def __init__(self):
        super().__init__(logging.WARNING)
        self.heard = []

    def emit(self, record):
        self.heard.append(record.getMessage())


def load_quietly(directory, **options):
    """Loads with transformers; any warning or log line, any missing or unexpected tensor, is a failure."""
    listener = Listener()
    logger = logging.getLogger("transformers")
    logger.addHandler(listener)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model, info = AutoModelForCausalLM.from_pretrained(directory, attn_implementation="eager", output_loading_info=True,
                                                               **options)
    finally:
        logger.removeHandler(listener)
    heard = listener.heard + [str(w.message) for w in caught]
    assert not heard, f"{directory}: transformers warns: {heard}"
    assert not any(info.values()), f"{directory}: {info}"
    return model.eval()


def random_model(name, seed):
    kind, fields = MODELS[name]
    torch.manual_seed(seed)
    config = getattr(transformers, kind + "Config")(**fields)
    model = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():  # norms and biases away from 1 and 0, so that an unused one shows
        for parameter_name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                start = 0 if "bias" in parameter_name else 1
                parameter.copy_(start + 0.3 * torch.randn_like(parameter))
    model.generation_config = transformers.GenerationConfig(bos_token_id=1, eos_token_id=2, pad_token_id=0)
    return model


def greedy(model, prompt):
    """Without a cache; the smallest distance between the two likeliest tokens goes along."""
    ids, margin = prompt, float("inf")
    with torch.no_grad():
        for _ in range(NEW):
            top = model(input_ids=ids, use_cache=False).logits[0, -1].topk(2)
            margin = min(margin, float(top.values[0] - top.values[1]))
            ids = torch.cat([ids, top.indices[:1].view(1, 1)], 1)
    return ids[0, prompt.shape[1]:].tolist(), margin


def check_numbers(name, directory, work):
    ids = torch.randint(3, VOCABULARY, (2, LENGTH), generator=torch.Generator().manual_seed(5))
    (work / "tokens.json").write_text(json.dumps({"ids": ids.tolist()}))
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager").eval()
    exact = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float64, attn_implementation="eager").eval()
    loss = torch.nn.functional.cross_entropy(exact(input_ids=ids, use_cache=False).logits[:, :-1].reshape(-1, VOCABULARY),
                                             ids[:, 1:].reshape(-1))
    loss.backward()
    loss = float(loss.detach())

    answer = weft("eval", directory, "--tokens", work / "tokens.json", "--logits", work / "logits.safetensors", "--gradients",
                  work / "gradients.safetensors")
    assert answer["tokens"] == 2 * (LENGTH - 1), answer
    loss_error = abs(answer["loss"] - loss)
    assert loss_error < 5e-6, (answer["loss"], loss)
    logits = load_file(work / "logits.safetensors")
    logits = torch.stack([logits["logits.0"], logits["logits.1"]])
    with torch.no_grad():
        difference = float((logits - model(input_ids=ids, use_cache=False).logits).abs().max())
    assert difference < 1e-5, f"logits differ by {difference}"

    gradients = load_file(work / "gradients.safetensors")
    expected = {n: p.grad for n, p in exact.named_parameters()}
    assert set(gradients) == set(expected), set(gradients) ^ set(expected)
    worst = 0.0
    for parameter, gradient in expected.items():
        error = float((gradients[parameter].double() - gradient).norm() / gradient.norm())
        worst = max(worst, error)
        assert error < 1e-5, f"the gradient of {parameter} differs by {error} of its norm"

    prompts = [ids[row, start:start + PROMPT].tolist() for row in (0, 1) for start in (0, 8, 16)]
    (text, margin), prompt = max(((greedy(model, torch.tensor([prompt])), prompt) for prompt in prompts),
                                 key=lambda found: found[0][1])  # the prompt farthest from a tie
    answer = weft("generate", directory, "--token-ids", ",".join(map(str, prompt)), "--max-tokens", NEW, "--temperature", 0,
                  "--ignore-eos")
    assert answer["token_ids"] == text, f"greedy text differs: {answer['token_ids']} {text} (least margin {margin})"
    return f"logits {difference:.1e}  loss {loss_error:.1e}  gradients {worst:.1e}  least greedy margin {margin:.3f}"


def check_round_trip(directory, work):
    ids = torch.randint(3, VOCABULARY, (2, LENGTH), generator=torch.Generator().manual_seed(6))

    def logits(path, **options):
        with torch.no_grad():
            return load_quietly(path, **options)(input_ids=ids, use_cache=False).logits

    before = logits(directory, dtype=torch.float32)
    weft("convert", directory, work / "exported")
    assert torch.equal(logits(work / "exported"), before), "the exported model computes something else"
    weft("convert", work / "exported", work / "checkpoint", "--to", "weft")
    weft("convert", work / "checkpoint", work / "again", "--max-shard-mb", "0.05")
    assert (work / "again" / "model.safetensors.index.json").exists()
    assert torch.equal(logits(work / "again"), before), "the model that came through a checkpoint and shards computes something else"
    for dtype, torch_dtype in (("bf16", torch.bfloat16), ("fp16", torch.float16)):
        weft("convert", work / "again", work / dtype, "--dtype", dtype)
        rounded = {n: t for f in (work / dtype).glob("*.safetensors") for n, t in load_file(f).items()}
        whole = {n: t for f in (work / "again").glob("*.safetensors") for n, t in load_file(f).items()}
        assert set(rounded) == set(whole)
        assert all(torch.equal(rounded[n], whole[n].to(torch_dtype)) for n in whole), dtype
        model = load_quietly(work / dtype)
        assert model.dtype == torch_dtype, model.dtype
        # Read back: the rounded numbers in fp32.
        weft("convert", work / dtype, work / (dtype + "_wide"))
        wide = load_file(work / (dtype + "_wide") / "model.safetensors")
        assert all(torch.equal(wide[n], rounded[n].float()) for n in rounded), dtype


def check_shards_of_transformers(name, work):
    model = random_model(name, 3)
    model.save_pretrained(work / "sharded", max_shard_size="60KB")
    assert (work / "sharded" / "model.safetensors.index.json").exists()
    weft("convert", work / "sharded", work / "whole")
    model.save_pretrained(work / "reference")
    mine, theirs = load_file(work / "whole" / "model.safetensors"), load_file(work / "reference" / "model.safetensors")
    assert set(mine) == set(theirs) and all(torch.equal(mine[n], theirs[n]) for n in mine)


TOKENIZERS = pathlib.Path("tests/data/tokenizers/zoo")
TEXT = "The Bürger's naïve 3 cats, 你好!\n\n  And so they said: once upon a time there was a king who had 12 daughters.\r\n" * 3


def check_text(tokenizer_name, work):
    """Text in, text out: the tokenizer goes along with what is written, and prompt and evaluation give transformers' numbers."""
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(TOKENIZERS / tokenizer_name / "tokenizer.json"))
    torch.manual_seed(8)
    model = AutoModelForCausalLM.from_config(transformers.LlamaConfig(**dict(llama, vocab_size=len(tokenizer) + 3))).eval()
    model.generation_config = transformers.GenerationConfig(bos_token_id=1, eos_token_id=2, pad_token_id=0)
    model.save_pretrained(work / "model")
    tokenizer.save_pretrained(work / "model")
    weft("convert", work / "model", work / "checkpoint", "--to", "weft")
    weft("convert", work / "checkpoint", work / "exported")
    exported = transformers.AutoTokenizer.from_pretrained(work / "exported")
    ids = tokenizer(TEXT, add_special_tokens=False)["input_ids"]
    assert exported(TEXT, add_special_tokens=False)["input_ids"] == ids

    (work / "text.txt").write_bytes(TEXT.encode())
    context = 24
    total = count = 0
    with torch.no_grad():
        for start in range(0, len(ids), context):
            window = torch.tensor([ids[start:start + context]])
            if window.shape[1] < 2:
                continue
            logits = model.double()(input_ids=window, use_cache=False).logits[0, :-1]
            total += float(torch.nn.functional.cross_entropy(logits, window[0, 1:], reduction="sum"))
            count += window.shape[1] - 1
    prompt = "And so they said"
    prompt_ids = tokenizer(prompt, add_special_tokens=False)["input_ids"]
    expected, _ = greedy(model.float(), torch.tensor([prompt_ids]))
    for directory in (work / "model", work / "checkpoint", work / "exported"):
        answer = weft("eval", directory, "--data", work / "text.txt", "--context", context)
        assert answer["tokens"] == count and abs(answer["loss"] - total / count) < 5e-6, (answer, count, total / count)
        answer = weft("generate", directory, "--prompt", prompt, "--max-tokens", NEW, "--temperature", 0, "--ignore-eos")
        assert answer["token_ids"] == expected, (answer, expected)
        streamed = subprocess.run([engine, "generate", directory, "--prompt", prompt, "--max-tokens", str(NEW), "--temperature", "0",
                                   "--ignore-eos"], capture_output=True, check=True).stdout.decode()
        assert streamed == prompt + answer["text"] + "\n", (streamed, answer)


def check_refusals(work):
    model = random_model("llama2", 4)
    model.save_pretrained(work / "good")
    tensors = load_file(work / "good" / "model.safetensors")

    def refused(change, *expected):
        bad = work / "bad"
        shutil.rmtree(bad, ignore_errors=True)
        shutil.copytree(work / "good", bad)
        changed = dict(tensors)
        change(changed)
        save_file(changed, bad / "model.safetensors", metadata={"format": "pt"})
        for command in (("eval", bad, "--tokens", work / "tokens.json"), ("convert", bad, work / "never")):
            said = weft(*command, code=2)
            assert all(word in said for word in expected), said
        assert not (work / "never").exists()

    name = "model.layers.1.mlp.up_proj.weight"
    refused(lambda t: t.pop("lm_head.weight"), "lm_head.weight", "missing", "not tied")
    refused(lambda t: t.pop(name), name, "missing")
    refused(lambda t: t.update({"model.layers.7.mlp.up_proj.weight": t[name].clone()}), "model.layers.7", "not expected")
    refused(lambda t: t.update({name: t[name][:-1].clone()}), name, "[95, 64]", "[96, 64]")
    refused(lambda t: t.update({name: t[name].to(torch.int32)}), name, "I32")

    save_file({n: t * (1e6 if n == name else 1) for n, t in tensors.items()}, work / "good" / "model.safetensors",
              metadata={"format": "pt"})
    said = weft("convert", work / "good", work / "never", "--dtype", "fp16", code=2)
    assert name in said and "float16" in said, said
    said = weft("convert", work / "good", work / "good", code=2)
    assert "exists already" in said, said


def main():
    names = sys.argv[2:] or list(MODELS)
    for number, name in enumerate(names):
        with tempfile.TemporaryDirectory() as folder:
            work = pathlib.Path(folder)
            random_model(name, 100 + number).save_pretrained(work / "model")
            found = check_numbers(name, work / "model", work)
            check_round_trip(work / "model", work)
            print(f"{name:16} {found}", flush=True)
    if sys.argv[2:]:
        return
    for name in ("gpt2", "llama2", "qwen2"):
        with tempfile.TemporaryDirectory() as folder:
            check_shards_of_transformers(name, pathlib.Path(folder))
    for name in ("bytelevel_bpe_1024", "llama2_bpe_1024"):
        with tempfile.TemporaryDirectory() as folder:
            check_text(name, pathlib.Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        (work / "tokens.json").write_text(json.dumps({"ids": [[3, 4, 5]]}))
        check_refusals(work)
    print("shards, texts and refusals as they should be")


if __name__ == "__main__":
    main()
