#!/usr/bin/env python3
"""Makes gpt.safetensors and mlp.safetensors beside this file: PyTorch's losses, logits, gradients
and updated weights for small models, which golden_test.cpp compares Sluice with.

Weights are random numbers rounded to float32; everything is computed in float64. Needs torch and
numpy only. The files in the repository were made with torch 2.15 (CPU); run it again only to
change the cases:  python make_golden.py
"""

import json
import pathlib
import struct

import torch
import torch.nn.functional as F

HERE = pathlib.Path(__file__).parent
TYPES = {torch.float32: "F32", torch.float64: "F64", torch.int32: "I32"}


def write(name, tensors, metadata):
    header, blobs, offset = {"__metadata__": metadata}, [], 0
    for key, value in tensors.items():
        blob = value.detach().contiguous().numpy().tobytes()
        header[key] = {
            "dtype": TYPES[value.dtype],
            "shape": list(value.shape),
            "data_offsets": [offset, offset + len(blob)],
        }
        blobs.append(blob)
        offset += len(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (HERE / name).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def random_weights(shapes, generator):
    return {
        name: (torch.randn(shape, generator=generator) * scale + base).float()
        for name, (shape, scale, base) in shapes.items()
    }


def layer_norm(x, w, name):
    return F.layer_norm(x, x.shape[-1:], w[name + ".weight"], w[name + ".bias"], eps=1e-5)


def linear(x, w, name):
    return F.linear(x, w[name + ".weight"], w[name + ".bias"])


def gpt_logits(w, ids, layers, heads):
    batch, length = ids.shape
    x = w["wte.weight"][ids] + w["wpe.weight"][:length]
    for i in range(layers):
        h = f"h.{i}"
        qkv = linear(layer_norm(x, w, h + ".ln_1"), w, h + ".attn.c_attn")
        q, k, v = (
            part.view(batch, length, heads, -1).transpose(1, 2) for part in qkv.chunk(3, dim=-1)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + linear(y.transpose(1, 2).reshape(x.shape), w, h + ".attn.c_proj")
        y = linear(layer_norm(x, w, h + ".ln_2"), w, h + ".mlp.c_fc")
        x = x + linear(F.gelu(y, approximate="tanh"), w, h + ".mlp.c_proj")
    return F.linear(layer_norm(x, w, "ln_f"), w["wte.weight"])


def mlp_logits(w, x, layers):
    for i in range(layers):
        x = F.gelu(linear(x, w, f"layers.{i}"), approximate="tanh")
    return linear(x, w, "head")


def record(weights, logits_of, inputs, targets, steps=3):
    """Loss, logits and gradients at the start; weights after some clipped AdamW steps."""
    out = {"weight/" + name: value for name, value in weights.items()}
    out["inputs"], out["targets"] = inputs, targets
    w = {name: value.double().requires_grad_() for name, value in weights.items()}
    groups = [
        {"params": [v for v in w.values() if v.dim() > 1], "weight_decay": 0.1},
        {"params": [v for v in w.values() if v.dim() == 1], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=0.01, betas=(0.9, 0.95), eps=1e-8)
    valid = int((targets != -1).sum())
    for step in range(steps):
        logits = logits_of(w)
        loss = F.cross_entropy(
            logits.view(-1, logits.shape[-1]),
            targets.long().view(-1),
            ignore_index=-1,
            reduction="sum",
        )
        optimizer.zero_grad()
        (loss / valid).backward()
        if step == 0:
            out["loss"] = loss
            out["logits"] = logits
            out.update({"gradient/" + name: v.grad.clone() for name, v in w.items()})
        norm = torch.nn.utils.clip_grad_norm_(list(w.values()), 0.5)
        out[f"norm/{step}"] = norm
        optimizer.step()
    out.update({"updated/" + name: value for name, value in w.items()})
    return out


def gpt(generator):
    vocabulary, layers, width, heads, length = 17, 2, 12, 3, 9
    shapes = {
        "wte.weight": ((vocabulary, width), 0.5, 0),
        "wpe.weight": ((length, width), 0.5, 0),
    }
    for i in range(layers):
        h = f"h.{i}"
        for name, outputs, inputs in (
            ("attn.c_attn", 3 * width, width),
            ("attn.c_proj", width, width),
            ("mlp.c_fc", 4 * width, width),
            ("mlp.c_proj", width, 4 * width),
        ):
            shapes[f"{h}.{name}.weight"] = ((outputs, inputs), 0.4, 0)
            shapes[f"{h}.{name}.bias"] = ((outputs,), 0.1, 0)
        for name in ("ln_1", "ln_2"):
            shapes[f"{h}.{name}.weight"] = ((width,), 0.2, 1)
            shapes[f"{h}.{name}.bias"] = ((width,), 0.1, 0)
    shapes["ln_f.weight"], shapes["ln_f.bias"] = ((width,), 0.2, 1), ((width,), 0.1, 0)
    weights = random_weights(shapes, generator)
    ids = torch.randint(vocabulary, (3, 7), generator=generator, dtype=torch.int32)
    targets = torch.randint(vocabulary, (3, 7), generator=generator, dtype=torch.int32)
    targets[torch.rand(3, 7, generator=generator) < 0.3] = -1
    tensors = record(weights, lambda w: gpt_logits(w, ids.long(), layers, heads), ids, targets)
    metadata = dict(vocabulary=vocabulary, layers=layers, width=width, heads=heads, length=length)
    write("gpt.safetensors", tensors, {k: str(v) for k, v in metadata.items()})


def mlp(generator):
    features, width, layers, classes = 7, 11, 2, 5
    shapes = {}
    for i in range(layers):
        shapes[f"layers.{i}.weight"] = ((width, features if i == 0 else width), 0.5, 0)
        shapes[f"layers.{i}.bias"] = ((width,), 0.1, 0)
    shapes["head.weight"], shapes["head.bias"] = ((classes, width), 0.5, 0), ((classes,), 0.1, 0)
    weights = random_weights(shapes, generator)
    x = torch.randn(6, features, generator=generator).double()
    labels = torch.randint(classes, (6,), generator=generator, dtype=torch.int32)
    labels[2] = -1
    tensors = record(weights, lambda w: mlp_logits(w, x, layers), x, labels)
    metadata = dict(features=features, width=width, layers=layers, classes=classes)
    write("mlp.safetensors", tensors, {k: str(v) for k, v in metadata.items()})


if __name__ == "__main__":
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(2024)
    gpt(generator)
    mlp(generator)
