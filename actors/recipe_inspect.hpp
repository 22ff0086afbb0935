#pragma once

/// How CAF writes and reads plans and recipes. The names of the fields are for logs; on the wire
/// they have an order only, so a change here needs another control_version.

#include "actors/messages.hpp"
#include "actors/recipe.hpp"

namespace sluice::plan {

template <class Inspector>
bool inspect(Inspector& f, lane_entry& x) {
  return f.object(x).fields(f.field("chunk", x.chunk), f.field("micro_batch", x.micro_batch),
                            f.field("version", x.version), f.field("split", x.split));
}

template <class Inspector>
bool inspect(Inspector& f, rank_plan& x) {
  return f.object(x).fields(f.field("forwards", x.forwards), f.field("backwards", x.backwards),
                            f.field("weights", x.weights), f.field("updates", x.updates),
                            f.field("warm_up", x.warm_up), f.field("credits", x.credits),
                            f.field("stand_in", x.stand_in),
                            f.field("backward_lead", x.backward_lead), f.field("order", x.order),
                            f.field("look_ahead", x.look_ahead));
}

template <class Inspector>
bool inspect(Inspector& f, chunk_place& x) {
  return f.object(x).fields(f.field("rank", x.rank), f.field("part", x.part),
                            f.field("local", x.local));
}

template <class Inspector>
bool inspect(Inspector& f, skip_edge& x) {
  return f.object(x).fields(f.field("from_part", x.from_part), f.field("to_part", x.to_part));
}

template <class Inspector>
bool inspect(Inspector& f, plan& x) {
  return f.object(x).fields(f.field("schedule", x.schedule), f.field("ranks", x.ranks),
                            f.field("micro_batches", x.micro_batches), f.field("parts", x.parts),
                            f.field("forward_only", x.forward_only),
                            f.field("asynchronous", x.asynchronous),
                            f.field("receive_slots", x.receive_slots), f.field("chunks", x.chunks),
                            f.field("routes", x.routes), f.field("route_of", x.route_of),
                            f.field("skips", x.skips), f.field("by_rank", x.by_rank));
}

} // namespace sluice::plan

namespace sluice::kernels::nn {

template <class Inspector>
bool inspect(Inspector& f, model_values& x) {
  return f.object(x).fields(f.field("inputs", x.inputs), f.field("targets", x.targets));
}

} // namespace sluice::kernels::nn

namespace sluice::actors {

template <class Inspector>
bool inspect(Inspector& f, model_recipe& x) {
  return f.object(x).fields(
    f.field("kind", x.kind), f.field("vocabulary", x.vocabulary), f.field("layers", x.layers),
    f.field("width", x.width), f.field("heads", x.heads), f.field("length", x.length),
    f.field("dropout", x.dropout), f.field("tied", x.tied), f.field("precision", x.precision));
}

template <class Inspector>
bool inspect(Inspector& f, optimizer_recipe& x) {
  return f.object(x).fields(f.field("kind", x.kind), f.field("weight_decay", x.weight_decay),
                            f.field("momentum", x.momentum));
}

template <class Inspector>
bool inspect(Inspector& f, stage_recipe& x) {
  return f.object(x).fields(f.field("plan", x.plan), f.field("model", x.model),
                            f.field("optimizer", x.optimizer), f.field("cut", x.cut),
                            f.field("recompute", x.recompute),
                            f.field("recompute_ranks", x.recompute_ranks),
                            f.field("threads", x.threads), f.field("memory_bytes", x.memory_bytes),
                            f.field("values", x.values));
}

} // namespace sluice::actors
