#include "bench/torch_step.hpp"

#include <stdexcept>

#include <boost/asio/io_context.hpp>
#include <boost/process/args.hpp>
#include <boost/process/child.hpp>
#include <boost/process/exe.hpp>
#include <boost/process/io.hpp>
#include <boost/process/pipe.hpp>
#include <fmt/format.h>

#include "bench/programs.hpp"

namespace sluice::bench {

namespace bp = boost::process;

namespace {

/// Reads a number of threads, runs one step on them, writes its seconds; and so on.
constexpr const char* program = R"python(
import sys
import time
try:
    import torch
except ImportError:
    sys.exit(0)
from torch import nn
from torch.nn import functional as F

layers, width, heads, length, samples, micro_batches = map(int, sys.argv[1:])
torch.manual_seed(1)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"),
                                 nn.Linear(4 * width, width))

    def forward(self, x):
        q, k, v = (each.unflatten(-1, (heads, -1)).transpose(1, 2)
                   for each in self.attn(self.ln_1(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).flatten(-2))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(256, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block() for _ in range(layers)))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, ids, targets):
        x = self.wte(ids) + self.wpe.weight
        logits = F.linear(self.ln_f(self.blocks(x)), self.wte.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")


model = GPT()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1)
data = [torch.randint(256, (2, samples, length)) for _ in range(micro_batches)]
print("torch", torch.__version__, flush=True)
for line in sys.stdin:
    torch.set_num_threads(int(line))
    begin = time.perf_counter()
    optimizer.zero_grad()
    loss = 0.0
    for ids, targets in data:
        part = model(ids, targets)
        (part / (micro_batches * samples * length)).backward()
        loss += part.item()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print(time.perf_counter() - begin, flush=True)
)python";

} // namespace

struct torch_step::process {
  bp::opstream to;
  bp::ipstream from;
  bp::child child;
};

torch_step::torch_step(const std::string& python, const gpt_case& of)
  : process_(std::make_unique<process>()) {
  const auto path = find_program(python);
  if (path.empty())
    return;
  std::vector<std::string> words{"-W", "ignore", "-c", program};
  for (const auto each : {of.layers, of.width, of.heads, of.length, of.samples,
                          static_cast<std::int64_t>(of.micro_batches)})
    words.push_back(std::to_string(each));
  process_->child = bp::child(bp::exe = path, bp::args = words, bp::std_out > process_->from,
                              bp::std_in < process_->to);
  std::string first;
  if (std::getline(process_->from, first) && first.starts_with("torch "))
    version_ = first;
}

torch_step::~torch_step() {
  if (!process_->child.valid())
    return;
  process_->to.pipe().close(); // the end of its input is its end
  std::error_code ignored;
  process_->child.wait(ignored);
}

double torch_step::seconds(unsigned threads) {
  process_->to << threads << std::endl;
  double taken = 0;
  if (!(process_->from >> taken))
    throw std::runtime_error(fmt::format("{} has failed in its step", version_));
  return taken;
}

} // namespace sluice::bench
