#include "recipe/optimizer_node.h"

namespace weft::recipe {

using config::Hint;

const config::KindList& OptimizerNode::kinds() {
  static const config::KindList kinds = config::KindList::of<AdamW>();
  return kinds;
}

void OptimizerNode::fields(config::FieldList& list) {
  list.add("learning_rate", learning_rate, Hint::kCore, "", "the rate that the phases multiply").at_least(0);
  list.add("clip", clip, Hint::kCore, "", "greatest norm of the whole gradient; 0: never clipped").at_least(0);
}

void AdamW::fields(config::FieldList& list) {
  OptimizerNode::fields(list);
  list.add("betas", betas, Hint::kCore, "", "decay of the averages of the gradient and of its square")
      .length(2)
      .at_least(0)
      .below(1);
  list.add("epsilon", epsilon, Hint::kCore, "", "added to the root of the second average").above(0);
  list.add("weight_decay", weight_decay, Hint::kCore, "", "share of a parameter lost a step, times the rate")
      .at_least(0);
}

}  // namespace weft::recipe
