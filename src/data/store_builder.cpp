#include "data/store_builder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "data/dataset.h"
#include "data/source_files.h"
#include "data/store_tokenizer.h"
#include "data/text_tokens.h"
#include "data/token_store.h"

namespace weft::data {

namespace {

namespace fs = std::filesystem;

fs::path beside(fs::path prefix, const char* extension) {
  prefix += extension;
  return prefix;
}

void check_output(const BuiltStore& store) {
  for (const fs::path& path : {store.bin, store.idx}) {
    if (fs::exists(path))
      throw InputError(fmt::format("{} exists already; remove it or choose another output", path.string()));
  }
  const fs::path folder = fs::absolute(store.bin).parent_path();
  if (!fs::is_directory(folder)) throw InputError(fmt::format("there is no folder {} for the output", folder.string()));
}

// A tokenizer that is there is fine if it is the same: an earlier attempt may have left it.
void check_tokenizer_folder(const BuiltStore& store, const Tokenizer& tokenizer) {
  if (!fs::exists(store.tokenizer)) return;
  if (store_tokenizer_fingerprint(store.bin) == tokenizer.fingerprint()) return;
  throw InputError(fmt::format("{} exists already and is another tokenizer", store.tokenizer.string()));
}

}  // namespace

BuiltStore build_store(const BuildOptions& options) {
  BuiltStore store{beside(options.output, ".bin"), beside(options.output, ".idx"), {}};
  store.tokenizer = store_tokenizer_folder(store.idx);
  check_output(store);

  DataNode node;
  node.sources = options.inputs;
  node.tokenizer = options.tokenizer;
  const auto tokenizer = make_tokenizer(node);
  check_tokenizer_folder(store, *tokenizer);
  std::vector<fs::path> files;
  for (const std::string& input : options.inputs) {
    for (const fs::path& file : find_files(input)) {
      if (file_kind(file) == FileKind::kStore) throw InputError(fmt::format("{} holds tokens already", file.string()));
      files.push_back(file);
      store.text_bytes += fs::file_size(file);
    }
  }

  MegatronWriter writer(options.output, megatron_token_type(tokenizer->vocabulary_size()));
  const TextOptions text = {.bos = options.bos,
                            .utf8 = options.tokenizer != "bytes",
                            .threads = options.threads,
                            .progress = options.progress};
  tokenize_documents(files, *tokenizer, text, [&](std::span<const TokenId> document) { writer.add(document); });
  if (writer.tokens() == 0) throw InputError(fmt::format("there is no text in {}", fmt::join(options.inputs, ", ")));
  store.documents = writer.documents();
  store.tokens = writer.tokens();
  if (!fs::exists(store.tokenizer)) write_store_tokenizer(store.tokenizer, *tokenizer);
  writer.commit();
  return store;
}

}  // namespace weft::data
