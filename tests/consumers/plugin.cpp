// A shared library with Sluice inside: `sluice_plugin_ranks` is all that it is to show.

#include <sluice/pipeline.hpp>

extern "C" __attribute__((visibility("default"))) int sluice_plugin_ranks(const char* schedule) {
  try {
    return sluice::plan::make_plan(schedule, {.stages = 3, .micro_batches = 3}).ranks;
  } catch (const sluice::plan::plan_error&) {
    return -1;
  }
}
