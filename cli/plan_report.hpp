#pragma once

#include <nlohmann/json_fwd.hpp>

#include "actors/plan/check.hpp"
#include "actors/plan/search.hpp"
#include "actors/plan/simulate.hpp"

namespace sluice::cli {

/// The JSON object of `sluice plan`. Chunks are numbered as their rank counts them, from 0; `stage`
/// is the number of the chunk's part of the model. Without a run (a plan that cannot finish) the
/// numbers are null and the lists empty.
nlohmann::json to_json(const plan::plan& of, const plan::verdict& checked,
                       const plan::simulation& ran);

/// One line of a search.
nlohmann::json to_json(const plan::proposal& of);

} // namespace sluice::cli
