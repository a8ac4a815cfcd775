#include "model/memory.h"

#include <gtest/gtest.h>

#include "model/describe.h"
#include "model/family.h"

namespace weft::model {
namespace {

ModelNode gpt2() {
  Gpt2Family family;
  family.vocabulary = 50257;
  family.width = 768;
  family.layers = 12;
  family.heads = 12;
  return family.model();
}

TEST(Memory, CountsStateBytesByHand) {
  const ModelNode model = gpt2();
  const ModelDescription description = describe(model);
  MemoryQuestion question{.micro_batch = {4, 64}, .compute_bytes = 4, .optimizer_values = 2, .frozen = {}};
  const double parameters = 124439808;
  MemoryEstimate estimate = estimate_memory(description, question);
  EXPECT_EQ(estimate.parameters, 4 * parameters);
  EXPECT_EQ(estimate.gradients, 4 * parameters);
  EXPECT_EQ(estimate.optimizer, 8 * parameters);
  EXPECT_EQ(estimate.compute_copies, 0);
  EXPECT_EQ(estimate.logits, 4.0 * 256 * 50257);

  question.compute_bytes = 2;
  question.frozen.assign(description.parameters.size(), false);
  question.frozen.front() = true;  // the embedding
  estimate = estimate_memory(description, question);
  EXPECT_EQ(estimate.compute_copies, 2 * parameters);
  EXPECT_EQ(estimate.logits, 6.0 * 256 * 50257);
  EXPECT_EQ(estimate.gradients, 4 * (parameters - 50257.0 * 768));
  EXPECT_EQ(estimate.optimizer, 8 * (parameters - 50257.0 * 768));
}

// A layer keeps x twice (before each norm), two normed copies, query, key, value and their mixture, the inner 4 x
// width, and what the kinds say they save; the last norm's input and output are kept as well.
TEST(Memory, CountsActivationsByHand) {
  const ModelNode model = gpt2();
  const ModelDescription description = describe(model);
  const MemoryQuestion question{.micro_batch = {4, 64}, .compute_bytes = 4, .optimizer_values = 2, .frozen = {}};
  double saved = 0;
  for (const SegmentDescription& segment : description.segments)
    saved += segment.cost(question.micro_batch).saved_values;
  const double kept = 12 * (2 + 2 + 3) * 768.0 + 2 * 768;
  EXPECT_EQ(estimate_memory(description, question).activations, 4 * (256 * kept + saved));
}

TEST(Memory, FindsWhatFits) {
  const ModelNode model = gpt2();
  const ModelDescription description = describe(model);
  MemoryQuestion question{.micro_batch = {1, 64}, .compute_bytes = 4, .optimizer_values = 2, .frozen = {}};
  for (const int64_t sequences : {1, 2, 7, 100}) {
    question.micro_batch.sequences = sequences;
    const double bytes = estimate_memory(description, question).total();
    EXPECT_EQ(fitting_sequences(description, question, bytes + 1), sequences);
    EXPECT_EQ(fitting_sequences(description, question, bytes - 1000), sequences - 1);
  }
  EXPECT_EQ(fitting_sequences(description, question, 1e9), 0);
}

}  // namespace
}  // namespace weft::model
