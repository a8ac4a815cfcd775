#include <cstdio>

#include <fmt/format.h>

#include "base/json.h"
#include "checkpoint/model_source.h"
#include "engine/bodies.h"
#include "engine/process.h"
#include "serve/loaded_model.h"

namespace weft::engine {
namespace {

constexpr double kBytesPerMegabyte = 1e6;

serve::ConvertOptions options_of(const app::Invocation& invocation) {
  serve::ConvertOptions options;
  if (invocation.text("--to") == "weft") options.format = serve::ConvertOptions::Format::kWeft;
  const std::string& dtype = invocation.text("--dtype");
  if (dtype == "bf16") options.type = at::kBFloat16;
  if (dtype == "fp16") options.type = at::kHalf;
  if (options.format == serve::ConvertOptions::Format::kWeft && options.type != at::kFloat) {
    throw InputError("--dtype: weft's own checkpoints hold fp32 weights");
  }
  if (invocation.given("--max-shard-mb")) {
    options.maximum_shard_bytes = static_cast<uint64_t>(invocation.number("--max-shard-mb") * kBytesPerMegabyte);
  }
  return options;
}

}  // namespace

ExitCode run_convert(const app::Invocation& invocation) {
  const auto options = options_of(invocation);
  const auto source = checkpoint::open_model(invocation.text("SRC"));
  for (const std::string& warning : source.warnings) fmt::print(stderr, "weft: warning: {}\n", warning);
  const auto written = serve::convert(source, invocation.text("DST"), options);
  if (invocation.json()) {
    const OrderedJson answer = {{"files", written.files}, {"parameters", written.parameters}};
    fmt::print("{}\n", dump_json(answer));
  } else {
    fmt::print("{}: {} parameters in", invocation.text("DST"), written.parameters);
    for (const auto& file : written.files) fmt::print(" {}", file);
    fmt::print("\n");
  }
  return ExitCode::kDone;
}

}  // namespace weft::engine
