/// Prints plans as data for the model checker spin, followed by the protocol that runs them.
///
///     promela_of_plan [OPTION...] PLAN... > model.pml
///     spin -a model.pml && gcc -O2 -DSAFETY -DCOLLAPSE pan.c -o pan && PLAN=0 ./pan -q
///
/// A PLAN is SCHEDULE:P:M:V:CREDITS, with "-" for the schedule's own V or credits, or with :SEED
/// behind it, a plan made from it by chance: lanes with entries swapped, other credits, warm-up
/// levels, stand-ins. The environment variable PLAN picks one of several when pan starts. The first
/// lines say, as comments, what check() finds of each: nothing else of it goes into the model,
/// except the bounds that it gives, which the model asserts.
///
///     --capacity=N         of the transport: how many transfers of an edge may lie at the
///                          receiver; 0: rendezvous
///     --receive-slots=N    see plan::receive_slots
///     --fault=NAME         lost, duplicated, swapped, unordered, overdrawn: in the protocol;
///                          credit (rank 0 has one too few), lanes (rank 0 runs its first backward
///                          last): in the plan
///     --forward-only       the plan for evaluation
///     --list               instead: the schedules, each with its own V and whether another may be
///     --no-trainer         inputs and targets are there from the beginning

#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <iostream>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "actors/plan/check.hpp"
#include "actors/plan/make_plan.hpp"

namespace {

using namespace sluice::plan;
using enum task_kind;

constexpr std::array protocol_faults{"none",    "lost",      "duplicated",
                                     "swapped", "unordered", "overdrawn"};

struct options {
  std::int32_t capacity = 1;
  std::int32_t receive_slots = 0;
  std::string fault = "none";
  bool forward_only = false;
  bool trainer = true;
  bool list = false;
  std::vector<std::string> plans = {};
};

/// One payload kind into one chunk, as the model numbers its channels.
struct edge {
  enum class carries { activation, gradient, target } what;
  std::int32_t from; // chunk; -1: the trainer
  std::int32_t to;
};

std::vector<edge> edges_of(const plan& of, const options& how) {
  const topology feeds{of};
  std::vector<edge> found;
  for (std::int32_t c = 0; c < static_cast<std::int32_t>(of.chunks.size()); ++c) {
    for (const auto from : feeds.sources(c))
      found.push_back({edge::carries::activation, from, c});
    if (feeds.sources(c).empty() && how.trainer)
      found.push_back({edge::carries::activation, -1, c});
    if (feeds.targets(c).empty() && how.trainer)
      found.push_back({edge::carries::target, -1, c});
    if (!of.forward_only)
      for (const auto from : feeds.targets(c))
        found.push_back({edge::carries::gradient, from, c});
  }
  return found;
}

/// Swaps entries of lanes and sets the bounds anew. About half of what comes out can finish.
void randomize(plan& of, std::uint64_t seed) {
  std::mt19937_64 random{seed};
  const auto below = [&](std::int64_t n) { return static_cast<std::int32_t>(random() % n); };
  for (auto& mine : of.by_rank) {
    for (auto* lane : {&mine.forwards, &mine.backwards})
      if (below(3) == 0)
        std::swap((*lane)[below(std::ssize(*lane))], (*lane)[below(std::ssize(*lane))]);
    mine.weights.clear(); // in the order of their backwards
    for (auto entry : mine.backwards)
      if (std::exchange(entry.split, false))
        mine.weights.push_back(entry);
    mine.credits = 1 + below(mine.credits + 1);
    mine.warm_up = below(mine.warm_up + 2);
    mine.stand_in = below(3) > 0;
    mine.backward_lead = below(2) == 0 ? below(2) : rank_plan::any;
  }
}

plan plan_of(const std::string& text, const options& how) {
  std::vector<std::string> fields;
  std::istringstream in{text};
  for (std::string field; std::getline(in, field, ':');)
    fields.push_back(field);
  if (fields.size() != 5 && fields.size() != 6)
    throw std::invalid_argument(text + " is not SCHEDULE:P:M:V:CREDITS[:SEED]");
  plan_request wanted{.stages = std::stoi(fields[1]), .micro_batches = std::stoi(fields[2])};
  if (fields[3] != "-")
    wanted.chunks = std::stoi(fields[3]);
  if (fields[4] != "-")
    wanted.credits = std::stoi(fields[4]);
  wanted.receive_slots = how.receive_slots;
  wanted.forward_only = how.forward_only;
  auto made = make_plan(fields[0], wanted);
  if (fields.size() == 6)
    randomize(made, std::stoull(fields[5]));
  if (how.fault == "credit")
    --made.by_rank[0].credits; // and not the warm-up level, as a caller's own credits would
  if (how.fault == "lanes")
    std::swap(made.by_rank[0].backwards.front(), made.by_rank[0].backwards.back());
  return made;
}

/// An entry in a byte, as protocol.pml takes it apart.
std::int32_t byte_of(const plan& of, const lane_entry& entry) {
  return of.chunks[entry.chunk].local << 4 | entry.split << 3 | entry.micro_batch;
}

std::string braced(const std::vector<std::int32_t>& values) {
  return fmt::format("{{{}}}", fmt::join(values, ", "));
}

std::string lane_text(const plan& of, const std::vector<lane_entry>& lane) {
  std::vector<std::int32_t> bytes;
  for (const auto& entry : lane)
    bytes.push_back(byte_of(of, entry));
  return braced(bytes);
}

/// A chunk's edges, by the order of F_IN, B_IN, T_IN, F_OUT and B_OUT in protocol.pml.
struct ends {
  std::array<std::int32_t, 5> edges = {-1, -1, -1, -1, -1};
  std::int32_t joins = 0; // bits: has one
  std::int32_t far = 0;   // bits: between ranks
};

/// Of the chunks of a rank, by their local numbers.
std::vector<ends> ends_of(const plan& of, const std::vector<edge>& edges, std::int32_t rank,
                          std::int32_t chunks) {
  std::vector<ends> found(chunks);
  for (std::size_t e = 0; e < edges.size(); ++e) {
    const auto& [what, from, to] = edges[e];
    const auto kind = static_cast<std::int32_t>(what);
    const auto join = [&](std::int32_t chunk, std::int32_t end) {
      if (chunk < 0 || of.chunks[chunk].rank != rank)
        return;
      auto& mine = found[of.chunks[chunk].local];
      mine.edges[end] = static_cast<std::int32_t>(e);
      mine.joins |= 1 << end;
      if (from >= 0 && of.chunks[from].rank != of.chunks[to].rank)
        mine.far |= 1 << end;
    };
    join(to, kind);
    join(from, 3 + kind);
  }
  return found;
}

/// A rank's lanes, bounds and edges: struct plan_of_rank. The edge after the last is of nobody, one
/// for each rank.
std::string rank_text(const plan& of, const std::vector<edge>& edges, const verdict& found,
                      std::int32_t rank, std::int32_t chunks, std::size_t all_edges) {
  const auto& mine = of.by_rank[rank];
  std::vector<std::int32_t> versions, order, joins, far;
  for (std::size_t i = 0; i < mine.forwards.size(); ++i) {
    versions.push_back(mine.forwards[i].version);
    if (of.asynchronous && mine.forwards[i] != mine.backwards[i])
      throw std::invalid_argument("asynchronous plans have equal lanes in the model");
  }
  for (const auto kind : mine.order)
    order.push_back(static_cast<std::int32_t>(kind));
  std::string ends;
  for (auto& chunk : ends_of(of, edges, rank, chunks)) {
    joins.push_back(chunk.joins);
    far.push_back(chunk.far);
    std::vector<std::int32_t> numbers;
    for (const auto e : chunk.edges)
      numbers.push_back(e < 0 ? static_cast<std::int32_t>(all_edges) + rank : e);
    ends += braced(numbers) + ", ";
  }
  return fmt::format(
    "    {{.f_lane = {}, .b_lane = {},\n     .w_lane = {}, .u_lane = {},\n"
    "     .f_version = {}, .order = {},\n     .f_count = {}, .w_count = {}, .u_count = {},\n"
    "     .credits = {}, .warm_up = {}, .lead = {}, .stand_in = {:d}, .fixed_order = {:d},\n"
    "     .most = {}, .most_versions = {},\n     .joins = {}, .far = {}, .ends = {{{}}}}},\n",
    lane_text(of, mine.forwards), lane_text(of, mine.backwards), lane_text(of, mine.weights),
    lane_text(of, mine.updates), braced(versions), braced(order), mine.forwards.size(),
    mine.weights.size(), mine.updates.size(), mine.credits, mine.warm_up,
    std::min(mine.backward_lead, 1000), mine.stand_in, !mine.order.empty(),
    found.most_activations.at(rank), found.most_versions.at(rank), braced(joins), braced(far),
    ends);
}

/// struct plan_of_step. The trainer's wires have their micro-batches from the start; those of one
/// route are numbered in a row.
std::string plan_text(std::string_view name, const plan& of, const std::vector<edge>& edges,
                      const verdict& found, std::int32_t chunks, std::size_t all_edges) {
  const topology feeds{of};
  std::vector<std::int32_t> firsts, lasts;
  for (const auto& each : edges) {
    const auto route = feeds.route(each.to);
    const auto first = std::find(of.route_of.begin(), of.route_of.end(), route);
    const auto last = std::find_if(first, of.route_of.end(), [&](auto r) { return r != route; });
    const bool from_trainer = each.from < 0;
    firsts.push_back(from_trainer ? static_cast<std::int32_t>(first - of.route_of.begin()) : 0);
    lasts.push_back(from_trainer ? static_cast<std::int32_t>(last - of.route_of.begin()) : 0);
  }
  auto text = fmt::format("  .name = \"{}\", .ranks = {}, .edges = {}, .live = {:d},\n"
                          "  .first = {}, .last = {},\n  .by_rank = {{\n",
                          name, of.ranks, edges.size(), found.live, braced(firsts), braced(lasts));
  for (std::int32_t r = 0; r < of.ranks; ++r)
    text += rank_text(of, edges, found, r, chunks, all_edges);
  return text + "  }\n";
}

std::string in_capitals(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return std::toupper(c); });
  return text;
}

std::int32_t chunks_a_rank(const std::vector<plan>& plans) {
  std::size_t most = 0;
  for (const auto& of : plans)
    most = std::max(most, of.chunks.size() / of.ranks);
  return static_cast<std::int32_t>(most);
}

std::size_t most_edges(const std::vector<plan>& plans, const options& how) {
  std::size_t most = 0;
  for (const auto& of : plans)
    most = std::max(most, edges_of(of, how).size());
  return most;
}

/// The sizes that hold all plans of the file, and the names of faults.
std::string constants(const std::vector<plan>& plans, const options& how) {
  std::size_t lane = 0;
  std::int32_t micro_batches = 0, ranks = 0;
  for (const auto& of : plans) {
    ranks = std::max(ranks, of.ranks);
    micro_batches = std::max(micro_batches, of.micro_batches);
    for (const auto& mine : of.by_rank)
      lane = std::max(lane, mine.forwards.size());
  }
  const auto chunks = chunks_a_rank(plans);
  if (chunks > 2 || micro_batches > 7)
    throw std::invalid_argument("the model has room for 2 chunks a rank and 7 micro-batches");
  auto text = fmt::format("#define EDGES {}\n#define RANKS {}\n#define CHUNKS {}\n"
                          "#define LANE {}\n#define MICRO_BATCHES {}\n#define CAPACITY {}\n"
                          "#define RECEIVE_SLOTS {}\n#define TRAINING {:d}\n",
                          most_edges(plans, how), ranks, chunks, lane, micro_batches, how.capacity,
                          how.receive_slots, !how.forward_only);
  for (std::size_t f = 0; f < protocol_faults.size(); ++f)
    text += fmt::format("#define {} {}\n",
                        f == 0 ? "NO_FAULT" : in_capitals(protocol_faults[f]), f);
  const bool in_plan = how.fault == "none" || how.fault == "credit" || how.fault == "lanes";
  return text + fmt::format("#define FAULT {}\n", in_plan ? "NO_FAULT" : in_capitals(how.fault));
}

std::string model(const options& how) {
  std::vector<plan> plans;
  for (const auto& text : how.plans)
    plans.push_back(plan_of(text, how));
  const auto chunks = chunks_a_rank(plans);
  const auto all_edges = most_edges(plans, how);
  std::string comments, tables, names;
  for (std::size_t p = 0; p < plans.size(); ++p) {
    const auto& of = plans[p];
    const auto found = check(of);
    if (!found.shape_errors.empty())
      throw std::invalid_argument(found.text);
    std::int32_t credits = 0;
    for (const auto& mine : of.by_rank)
      credits = std::max(credits, mine.credits);
    comments += fmt::format("// plan {} {} credits {} check {}\n", p, how.plans[p], credits,
                            found.live ? "live" : "stuck");
    // Each in a c_decl of its own: spin bounds their length.
    tables += fmt::format("c_decl {{ static const struct plan_of_step plan_{} = {{\n{}}}; }};\n", p,
                          plan_text(how.plans[p], of, edges_of(of, how), found, chunks,
                                    all_edges));
    names += fmt::format("{}&plan_{}", p == 0 ? "" : ", ", p);
  }
  const std::string folder = SLUICE_MODEL_DIR;
  return comments + constants(plans, how) + "#include \"" + folder + "/plan.pml\"\n" + tables
         + "c_decl { static const struct plan_of_step* const plans[] = {" + names + "}; };\n"
         + "#include \"" + folder + "/protocol.pml\"\n";
}

options parse(int count, char** words) {
  options how;
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    const auto value = [&](std::string_view name) { return word.starts_with(name); };
    const auto text = std::string{word.substr(std::min(word.find('=') + 1, word.size()))};
    if (value("--capacity="))
      how.capacity = std::stoi(text);
    else if (value("--receive-slots="))
      how.receive_slots = std::stoi(text);
    else if (value("--fault="))
      how.fault = text;
    else if (word == "--list")
      how.list = true;
    else if (word == "--forward-only")
      how.forward_only = true;
    else if (word == "--no-trainer")
      how.trainer = false;
    else if (word.starts_with("--"))
      throw std::invalid_argument("unknown option " + std::string{word});
    else
      how.plans.emplace_back(word);
  }
  return how;
}

} // namespace

int main(int count, char** words) {
  try {
    const auto how = parse(count, words);
    for (const auto& each : all_schedules())
      if (how.list)
        std::cout << fmt::format("{} {} {}\n", each.name, each.chunks,
                                 each.chunks_free ? "free" : "fixed");
    if (!how.list)
      std::cout << model(how);
  } catch (const std::exception& problem) {
    std::cerr << "promela_of_plan: " << problem.what() << '\n';
    return 1;
  }
}
