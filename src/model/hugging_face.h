// Hugging Face directories: config.json to and from the tree of nodes, and which tensor of their files holds which of
// our parameters. Reading and writing the tensors themselves is src/checkpoint's.
//
// Architectures: GPT2LMHeadModel, LlamaForCausalLM (SmolLM2 as well), MistralForCausalLM, Qwen2ForCausalLM,
// Qwen3ForCausalLM. docs/models.md tells what becomes of every field.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/description.h"
#include "model/nodes.h"

namespace weft::model {

// Token ids as config.json and generation_config.json name them.
struct SpecialTokens {
  std::optional<int64_t> begin;
  std::vector<int64_t> end;  // the text ends at any of these
  std::optional<int64_t> padding;
};

struct HuggingFaceConfig {
  ModelNode model;
  std::string architecture;  // "LlamaForCausalLM"
  std::string dtype;         // "float32", "bfloat16", "float16"; empty: not said
  SpecialTokens tokens;
  std::vector<std::string> warnings;  // fields that are not known and were not used, a sentence each
};

// Field names of transformers 5 (rope_parameters, dtype) and 4 (rope_theta, rope_scaling, torch_dtype). A field that is
// absent has transformers' default; sizes must be there. Throws InputError naming file, field, the value found and what
// is supported: fields whose values change numbers in a way weft does not compute, other architectures, wrong types or
// ranges.
[[nodiscard]] HuggingFaceConfig read_hugging_face_config(const std::filesystem::path& config_json);
[[nodiscard]] HuggingFaceConfig parse_hugging_face_config(std::string_view text, std::string_view origin);

struct HuggingFaceFiles {
  std::string architecture;
  std::string config_json;  // in the names of transformers 4 and 5 at once
  std::string generation_config_json;
};

// Chooses the architecture that computes the same function. Biases that an architecture demands and the tree lacks are
// zeros (HuggingFaceTensor). Dropouts that it cannot name are left out: they matter in training only. Throws InputError
// with the reason where none computes the tree's function. dtype: of the tensors in the files.
[[nodiscard]] HuggingFaceFiles write_hugging_face_config(const ModelNode& model, std::string_view dtype,
                                                         const SpecialTokens& tokens);

// A tensor of a Hugging Face file and the parameters it holds.
struct HuggingFaceTensor {
  std::string name;        // "transformer.h.0.attn.c_attn.weight"
  std::string short_name;  // the same without the base model's name, as some files have it: "h.0.attn.c_attn.weight"
  std::vector<int64_t> shape;   // in the file
  bool transposed = false;      // the file holds (in, out)
  std::vector<int> parameters;  // indices into the description, stacked along their first dimension; empty: zeros,
                                // which the description has no parameter for (only in files that are written)
};

// In the order of the description. The description must be of the architecture's tree (as read, or as chosen for
// writing). A tied head has no tensor; where a file has one all the same it is called tied_head_name().
[[nodiscard]] std::vector<HuggingFaceTensor> hugging_face_tensors(const ModelDescription& description,
                                                                  std::string_view architecture);
[[nodiscard]] std::string_view tied_head_name();

// Tensors that older files carry although they are no parameters (attention masks, rotation tables).
[[nodiscard]] bool is_known_buffer(std::string_view name);

}  // namespace weft::model
