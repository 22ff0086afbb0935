#!/usr/bin/env python3
"""Tokens a second and model FLOP utilisation of a GPT, on one device.

    gpt_speed.py sluice COMMAND [--device cuda:0] [--limits FILE] [--tiny]
    gpt_speed.py torch          [--device cuda:0] [--limits FILE] [--tiny]

`sluice` trains by the command, `torch` the same network by PyTorch: eager mode, its own fused
attention and AdamW, bfloat16 by autocast. FILE: what `kernel_bench --limits` wrote. Utilisation is
6 operations a weight and token, and 6 for each pair of tokens that attention looks at and number of
the width, over the device's limit. Ends with 77 where PyTorch, or the device for it, is not there.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

REAL = dict(layers=12, width=768, heads=12, length=1024, micro_batch_size=8, micro_batches=4)
TINY = dict(layers=1, width=16, heads=2, length=8, micro_batch_size=2, micro_batches=2)
VOCABULARY = 256
STEPS = 12  # of which the median counts


def operations_a_token(of):
    weights = 12 * of["layers"] * of["width"] ** 2 + VOCABULARY * of["width"]
    return 6 * weights + 6 * of["layers"] * of["width"] * of["length"]  # half of it is masked


def tokens_a_step(of):
    return of["micro_batch_size"] * of["micro_batches"] * of["length"]


def say(who, precision, tokens, of, limits):
    most = limits.get(precision, 0)
    share = f"{100 * tokens * operations_a_token(of) / most:.1f}% of {most / 1e12:.0f} TFLOP/s" \
        if most else "no limit known"
    print(f"{who:<8}{precision:<10}{tokens:>12.0f} tokens/s   {share}", flush=True)


def by_sluice(command, device, precision, of):
    with tempfile.TemporaryDirectory() as folder:
        text = pathlib.Path(folder) / "text.txt"
        text.write_bytes(bytes(range(32, 127)) * 2000)
        words = [command, "train", "--data", text, "--stages", 1, "--device", device, "--precision",
                 precision, "--steps", STEPS, "--json", "-", "--schedule", "1f1b"]
        for key, value in of.items():
            words += ["--" + key.replace("_", "-"), value]
        done = subprocess.run([str(each) for each in words], capture_output=True, text=True,
                              check=False)
    if done.returncode != 0:
        sys.exit(f"sluice failed:\n{done.stderr}")
    seconds = json.loads(done.stdout)["seconds_per_step"]
    return tokens_a_step(of) / seconds


def torch_gpt(torch, of):
    width, heads = of["width"], of["heads"]
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attention, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            samples, length, _ = x.shape
            parts = self.attention(self.norm_1(x)).view(samples, length, 3, heads, width // heads)
            q, k, v = parts.permute(2, 0, 3, 1, 4)
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.projection(y.transpose(1, 2).reshape(samples, length, width))
            y = nn.functional.gelu(self.up(self.norm_2(x)), approximate="tanh")
            return x + self.down(y)

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(VOCABULARY, width)
            self.places = nn.Embedding(of["length"], width)
            self.blocks = nn.Sequential(*(Block() for _ in range(of["layers"])))
            self.norm = nn.LayerNorm(width)

        def forward(self, ids, targets):
            places = torch.arange(ids.shape[1], device=ids.device)
            x = self.norm(self.blocks(self.tokens(ids) + self.places(places)))
            logits = nn.functional.linear(x, self.tokens.weight)
            return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())

    return Gpt()


def by_torch(torch, device, precision, of):
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("highest")  # as sluice's float32
    model = torch_gpt(torch, of).to(device)
    adamw = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=device != "cpu")
    ids = torch.randint(VOCABULARY, (of["micro_batch_size"], of["length"]), device=device)
    wait = torch.cuda.synchronize if device != "cpu" else lambda: None
    seconds = []
    for _ in range(STEPS):
        wait()
        begin = time.perf_counter()
        for _ in range(of["micro_batches"]):
            with torch.autocast(device.split(":")[0], torch.bfloat16,
                                enabled=precision == "bfloat16"):
                loss = model(ids, ids)
            (loss / of["micro_batches"]).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adamw.step()
        adamw.zero_grad(set_to_none=False)
        wait()
        seconds.append(time.perf_counter() - begin)
    return tokens_a_step(of) / statistics.median(seconds)


def main():
    given = argparse.ArgumentParser(description=__doc__,
                                    formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("who", choices=["sluice", "torch"])
    given.add_argument("command", nargs="?")
    given.add_argument("--device", default="cuda:0")
    given.add_argument("--limits")
    given.add_argument("--tiny", action="store_true")
    given = given.parse_args()
    of = TINY if given.tiny else REAL
    limits = json.loads(pathlib.Path(given.limits).read_text()) if given.limits else {}
    if given.who == "torch":
        try:
            import torch
        except ImportError:
            print("SKIPPED: PyTorch is not installed")
            sys.exit(77)
        if given.device != "cpu" and not torch.cuda.is_available():
            print(f"SKIPPED: this PyTorch ({torch.__version__}) finds no GPU")
            sys.exit(77)
    for precision in ("float32", "bfloat16"):
        tokens = by_sluice(given.command, given.device, precision, of) if given.who == "sluice" \
            else by_torch(torch, given.device, precision, of)
        say(given.who, precision, tokens, of, limits)


if __name__ == "__main__":
    main()
