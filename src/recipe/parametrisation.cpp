#include "recipe/parametrisation.h"

namespace weft::recipe {

const config::KindList& ParametrisationNode::kinds() {
  static const config::KindList kinds = config::KindList::of<StandardParametrisation>();
  return kinds;
}

}  // namespace weft::recipe
