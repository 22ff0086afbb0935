#pragma once

#include <string>
#include <string_view>

#include "actors/plan/plan.hpp"

namespace sluice::plan {

/// Reads an explicit plan: the table of actions that torch.distributed.pipelining writes and reads
/// as CSV. One row for each rank, one cell for each action in the order of running: stage, kind and
/// micro-batch, as in
///
///     0F0,0F1,0B0,0B1
///     1F0,1B0,1F1,1B1
///
/// with F forward, B whole backward, I gradient of the inputs, W gradient of the weights. Empty
/// cells are idle time; "(1F3;0B2)OVERLAP_F_B" is a forward and a backward run as one, taken as one
/// after the other. Cells that move data or parameters (SEND_F, RECV_B, UNSHARD ...) are passed
/// over: that is the runtime's work here.
///
/// The order of each rank is fixed; its credits are what the order holds at most.
///
/// Errors: plan_error that names row, column and cell; rows and columns count from 1.
plan read_action_table(std::string_view csv);

/// The same from a file. Errors: also plan_error if the file cannot be read, with its path.
plan read_action_table_file(const std::string& path);

/// Writes a plan as such a table. A plan that leaves choices is written in the order in which it
/// runs with equal stages and unit times.
///
/// Errors: plan_error for plans that the format has no words for: with replicas of parts (stages of
/// one number on two ranks) or updates within the step; or that cannot finish.
std::string write_action_table(const plan& of);

} // namespace sluice::plan
