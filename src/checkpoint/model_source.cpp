#include "checkpoint/model_source.h"

#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "checkpoint/training_state.h"
#include "config/toml.h"
#include "model/describe.h"

namespace weft::checkpoint {

namespace {

void open_checkpoint(ModelSource& source) {
  auto reader = std::make_unique<CheckpointReader>(source.folder.checkpoint);
  auto tree = std::make_unique<model::ModelNode>();
  config::Origins origins;
  config::apply(config::parse_toml(reader->read_text(kModelFile), (reader->folder() / kModelFile).string()), *tree,
                origins);
  source.model = std::move(tree);
  source.description = model::describe(*source.model);
  source.manifest = reader->manifest();
  source.weights = std::make_unique<CheckpointWeights>(std::move(reader), source.description);
  const auto run = std::filesystem::weakly_canonical(source.folder.checkpoint).parent_path().parent_path();
  source.tokenizer = {source.folder.checkpoint, run};
}

void open_hugging_face(ModelSource& source) {
  const auto& directory = source.folder.directory;
  auto read = model::read_hugging_face_config(directory / "config.json");
  source.model = std::make_unique<const model::ModelNode>(std::move(read.model));
  source.description = model::describe(*source.model);
  source.architecture = std::move(read.architecture);
  source.tokens = std::move(read.tokens);
  source.warnings = std::move(read.warnings);
  source.weights = std::make_unique<HuggingFaceWeights>(directory, source.description, source.architecture);
  source.tokenizer = {directory};
}

}  // namespace

ModelSource open_model(const std::filesystem::path& directory) {
  ModelSource source;
  source.folder = find_model_folder(directory);
  if (source.folder.kind == ModelFolderKind::kHuggingFace) {
    open_hugging_face(source);
  } else {
    open_checkpoint(source);
  }
  return source;
}

}  // namespace weft::checkpoint
