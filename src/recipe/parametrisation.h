// The [parametrisation] section: how initial values and rates follow from a parameter's class.
#pragma once

#include "config/node.h"

namespace weft::recipe {

struct ParametrisationNode : config::Node {
  static const config::KindList& kinds();
};

// Every parameter is initialised as the model says and learns at the optimizer's rate.
struct StandardParametrisation : ParametrisationNode {
  WEFT_NODE(StandardParametrisation, "standard")
  void fields(config::FieldList&) override {}
};

}  // namespace weft::recipe
