"""A training loop in plain PyTorch, in double precision: what weft's steps are compared with."""
import math

import torch
import torch.nn.functional as F


def rms_norm(x, p, path):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * p[path + ".weight"]


def layer_norm(x, p, path):
    return F.layer_norm(x, x.shape[-1:], p[path + ".weight"], p[path + ".bias"], 1e-5)


def linear(x, p, path):
    return F.linear(x, p[path + ".weight"], p.get(path + ".bias"))


def rotate(x):
    half, length = x.shape[-1] // 2, x.shape[-2]
    angle = torch.outer(torch.arange(length).double(), 10000.0 ** (-torch.arange(half).double() / half))
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)


def logits(p, tokens, llama, layers=2, heads=4):
    norm = rms_norm if llama else layer_norm
    x = F.embedding(tokens, p["embedding.weight"])
    if not llama:
        x = x + p["position.weight"][: tokens.shape[1]]
    for layer in range(layers):
        at = f"layers.{layer}."
        normed = norm(x, p, at + "attention_norm")
        q, k, v = (linear(normed, p, f"{at}attention.{name}").unflatten(-1, (-1, x.shape[-1] // heads)).transpose(1, 2)
                   for name in ("query", "key", "value"))
        q, k = (rotate(q), rotate(k)) if llama else (q, k)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + linear(attended.transpose(1, 2).flatten(2), p, at + "attention.output")
        normed = norm(x, p, at + "mlp_norm")
        up = linear(normed, p, at + "mlp.up")
        inner = F.silu(linear(normed, p, at + "mlp.gate")) * up if llama else F.gelu(up, approximate="tanh")
        x = x + linear(inner, p, at + "mlp.down")
    head = p.get("head.weight", p["embedding.weight"])
    return F.linear(norm(x, p, "final_norm"), head)


def train(parameters, batches, llama):
    """Yields the loss of each step; changes the parameters."""
    p = {path: value.double().requires_grad_() for path, value in parameters.items()}
    matrices = [value for value in p.values() if value.dim() > 1]
    others = [value for value in p.values() if value.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.2}, {"params": others, "weight_decay": 0.0}],
                                  betas=(0.9, 0.98), eps=1e-8)
    for step, batch in enumerate(batches):
        factor = (step + 1) / 5 if step < 5 else 1 - 0.9 * (1 - math.cos(math.pi * (step - 4) / 15)) / 2
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * factor
        optimizer.zero_grad()
        tokens, targets = torch.tensor(batch["tokens"]), torch.tensor(batch["targets"])
        loss = F.cross_entropy(logits(p, tokens, llama).flatten(0, 1), targets.flatten(), ignore_index=-1)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(p.values(), 0.5)
        optimizer.step()
        yield loss.item(), norm.item()
    parameters.update({path: value.detach() for path, value in p.items()})
