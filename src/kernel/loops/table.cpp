#include "kernel/loops/level.h"

#define WEFT_TEXT_OF(name) #name
#define WEFT_TEXT(name) WEFT_TEXT_OF(name)

namespace weft::kernel::WEFT_LEVEL {

void fill_table(Loops& table) {
  table.level = WEFT_TEXT(WEFT_LEVEL);
  fill_norms(table);
  fill_activations(table);
  fill_losses(table);
  fill_elementwise(table);
  fill_attention(table);
  fill_random(table);
  fill_optimizers(table);
  fill_products(table);
}

}  // namespace weft::kernel::WEFT_LEVEL
