#include <cstdio>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/deciding_commands.h"
#include "base/checkpoint_folder.h"
#include "base/checkpoint_ranks.h"
#include "base/json.h"

namespace weft::app {
namespace {

// The checkpoints that DIR means: those of a run's folder, or DIR itself.
std::vector<CheckpointEntry> checkpoints_of(const std::filesystem::path& directory) {
  if (std::filesystem::exists(directory / kManifestName)) {
    int64_t step = 0;
    const std::string name = std::filesystem::weakly_canonical(directory).filename().string();
    if (std::sscanf(name.c_str(), "step-%ld", &step) != 1) step = 0;
    return {{step, directory}};
  }
  if (!std::filesystem::is_directory(directory)) {
    throw InputError(fmt::format("{}: there is no such folder", directory.string()));
  }
  const std::filesystem::path checkpoints = directory / "checkpoints";
  std::vector<CheckpointEntry> entries =
      list_checkpoints(std::filesystem::is_directory(checkpoints) ? checkpoints : directory);
  if (entries.empty()) {
    throw InputError(fmt::format("{}: no checkpoint there: neither {} nor a folder step-N in it or in its checkpoints/",
                                 directory.string(), kManifestName));
  }
  return entries;
}

struct Listed {
  CheckpointEntry entry;
  std::optional<Manifest> manifest;
  std::vector<std::string> reasons;  // why it is not valid
};

std::string shown_loss(const Listed& listed) {
  if (!listed.manifest || !listed.manifest->validation_loss) return "-";
  return fmt::format("{:.4f}", *listed.manifest->validation_loss);
}

void print_table(const std::vector<Listed>& all) {
  fmt::print("{:>10}  {:>14}  {:>15}  {}\n", "step", "tokens", "validation loss", "state");
  for (const Listed& listed : all) {
    const std::string tokens = listed.manifest ? fmt::format("{}", listed.manifest->tokens) : "-";
    fmt::print("{:>10}  {:>14}  {:>15}  {}\n", listed.entry.step, tokens, shown_loss(listed),
               listed.reasons.empty() ? "valid" : "not valid");
    for (const std::string& reason : listed.reasons) fmt::print("            {}\n", reason);
  }
}

void print_json(const std::vector<Listed>& all) {
  OrderedJson steps = OrderedJson::array(), rows = OrderedJson::array();
  bool valid = true;
  OrderedJson reason = nullptr;
  for (const Listed& listed : all) {
    steps.push_back(listed.entry.step);
    OrderedJson row = {{"step", listed.entry.step}, {"path", listed.entry.folder.string()}};
    row["valid"] = listed.reasons.empty();
    row["reason"] = listed.reasons.empty() ? OrderedJson(nullptr) : OrderedJson(listed.reasons.front());
    row["tokens"] = listed.manifest ? OrderedJson(listed.manifest->tokens) : OrderedJson(nullptr);
    row["validation_loss"] = nullptr;
    if (listed.manifest && listed.manifest->validation_loss) {
      row["validation_loss"] = *listed.manifest->validation_loss;
    }
    if (!listed.reasons.empty()) valid = false;
    if (!listed.reasons.empty() && reason.is_null()) reason = listed.reasons.front();
    rows.push_back(row);
  }
  const OrderedJson answer = {{"steps", steps}, {"valid", valid}, {"reason", reason}, {"checkpoints", rows}};
  fmt::print("{}\n", dump_json(answer));
}

enum class Depth { kManifest, kEveryByte };

// Returns whether all are valid.
bool show(const Invocation& invocation, Depth depth) {
  std::vector<Listed> all;
  bool valid = true;
  for (CheckpointEntry& entry : checkpoints_of(invocation.text("DIR"))) {
    Listed& listed = all.emplace_back(Listed{std::move(entry), {}, {}});
    try {
      listed.manifest = read_manifest(listed.entry.folder);
      if (depth == Depth::kEveryByte) listed.reasons = verify_checkpoint(listed.entry.folder);
    } catch (const InputError& error) {
      listed.reasons = {error.what()};
    }
    valid = valid && listed.reasons.empty();
  }
  invocation.json() ? print_json(all) : print_table(all);
  return valid;
}

// A checkpoint's folder, or the newest complete one of a run.
std::filesystem::path checkpoint_of(const std::filesystem::path& directory) {
  if (std::filesystem::exists(directory / kManifestName)) return directory;
  const auto newest = newest_checkpoint(directory / "checkpoints");
  if (!newest) {
    throw InputError(
        fmt::format("{}: neither a checkpoint nor a run with a complete one in checkpoints/", directory.string()));
  }
  return newest->folder;
}

}  // namespace

ExitCode run_checkpoint_list(const Invocation& invocation) {
  show(invocation, Depth::kManifest);
  return ExitCode::kDone;
}

ExitCode run_checkpoint_verify(const Invocation& invocation) {
  return show(invocation, Depth::kEveryByte) ? ExitCode::kDone : ExitCode::kInput;
}

ExitCode run_checkpoint_reshard(const Invocation& invocation) {
  const std::filesystem::path from = checkpoint_of(invocation.text("DIR"));
  const std::string to = invocation.text("--out");
  const Manifest manifest = reshard_checkpoint(from, to, static_cast<int>(invocation.integer("--ranks")));
  std::vector<std::string> files;
  for (const ManifestFile& file : manifest.files) files.push_back(file.name);
  if (invocation.json()) {
    const OrderedJson answer = {
        {"steps", {manifest.step}},           {"valid", true}, {"reason", nullptr}, {"path", to},
        {"tensors", manifest.tensors.size()}, {"files", files}};
    fmt::print("{}\n", dump_json(answer));
  } else {
    fmt::print("{}: step {}, {} tensors in {}\n", to, manifest.step, manifest.tensors.size(), fmt::join(files, " "));
  }
  return ExitCode::kDone;
}

}  // namespace weft::app
