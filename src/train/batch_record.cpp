#include "train/batch_record.h"

#include "base/json.h"

namespace weft::train {

void BatchRecord::add(int64_t step, const std::vector<data::SampleBatch>& batches) {
  OrderedJson ids = OrderedJson::array(), tokens = OrderedJson::array(), targets = OrderedJson::array();
  for (const data::SampleBatch& batch : batches) {
    for (int64_t row = 0; row < batch.rows; ++row) {
      const int64_t begin = row * batch.length, end = begin + batch.length;
      ids.push_back(batch.sample_ids[static_cast<size_t>(row)]);
      tokens.push_back(std::vector<int64_t>(batch.tokens.begin() + begin, batch.tokens.begin() + end));
      targets.push_back(std::vector<int64_t>(batch.targets.begin() + begin, batch.targets.begin() + end));
    }
  }
  lines_.append({{"step", step}, {"sample_ids", ids}, {"tokens", tokens}, {"targets", targets}});
}

}  // namespace weft::train
