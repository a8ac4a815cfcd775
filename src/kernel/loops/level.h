// Each loops/*.cpp fills its part of a level's table.
#pragma once

#include "kernel/loops/loops.h"

namespace weft::kernel::WEFT_LEVEL {

void fill_table(Loops& table);  // all of the following

void fill_norms(Loops& table);
void fill_activations(Loops& table);
void fill_losses(Loops& table);
void fill_elementwise(Loops& table);
void fill_attention(Loops& table);
void fill_random(Loops& table);
void fill_optimizers(Loops& table);
void fill_products(Loops& table);

}  // namespace weft::kernel::WEFT_LEVEL
