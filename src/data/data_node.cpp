#include "data/data_node.h"

#include "data/source_files.h"

namespace weft::data {

using config::Hint;

void DataNode::fields(config::FieldList& list) {
  // Optional, since files may be moved: what they hold is guarded by the fingerprint.
  list.add("sources", sources, Hint::kOptional, "",
           "Files or globs of plain text (one document a file), .jsonl (a document a line, in its key \"text\") or "
           "token stores "
           "(.idx, .bin). Without weights they are one source, read in the order given.");
  list.add("weights", weights, Hint::kCore, "",
           "A number for each entry of sources: each becomes a source of its own, and samples are drawn in these "
           "proportions. 0: not before a phase asks for it.")
      .at_least(0);
  list.add("tokenizer", tokenizer, Hint::kArchitecture, "",
           "\"characters\" (those of the text), \"bytes\", or a folder with a tokenizer.json or GPT-2's files. Without "
           "it: the one that "
           "`weft data build` left beside the stores.");
  list.add("context", context, Hint::kArchitecture, "tokens", "The length of a training sample.")
      .at_least(1)
      .at_most(1 << 24);
  list.add("documents", documents, Hint::kCore, "",
           "\"join\": attention and positions run on from one document to the next in a sample. \"mask\": attention "
           "stays within a "
           "document, positions restart, and a document's first token is not predicted from the one before.")
      .one_of({"join", "mask"});
  list.add("bos", bos, Hint::kCore, "",
           "Text that is tokenized gets the tokenizer's first token in front of each document.");
  list.add("validation", validation, Hint::kCore, "",
           "The fraction of each source, from its end, that is kept for validation; or files and globs that are; 0 for "
           "none.")
      .at_least(0)
      .at_most(0.5);
}

void make_paths_absolute(DataNode& node, const std::vector<std::filesystem::path>& folders) {
  for (std::string& source : node.sources) source = absolute_pattern(source, folders);
  if (auto* files = std::get_if<std::vector<std::string>>(&node.validation)) {
    for (std::string& file : *files) file = absolute_pattern(file, folders);
  }
  if (node.tokenizer && *node.tokenizer != "characters" && *node.tokenizer != "bytes") {
    node.tokenizer = absolute_pattern(*node.tokenizer, folders);
  }
}

}  // namespace weft::data
