// Operators on sharded tensors. Each is its ATen operator on the local tensors beside a rule (rule.h), so that none
// moves data unless it takes groups; where an input's placement does not fit, Error names the redistribution that is
// missing. The line behind an operator is its rule; [f] marks factors that no axis may cut. Autograd is LibTorch's.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "comm/groups.h"
#include "tensor/dtensor.h"

namespace weft::tensor {

// ---- products (products.cpp) ----
DTensor mm(const DTensor& a, const DTensor& b);           // m k, k n -> m n             linear in each
DTensor bmm(const DTensor& a, const DTensor& b);          // b m k, b k n -> b m n       linear in each
DTensor linear(const DTensor& x, const DTensor& weight);  // ... k, n k -> ... n         linear in each
DTensor linear(const DTensor& x, const DTensor& weight, const DTensor& bias);  // ... k, n k, n -> ... n  [k]
// Causal attention; scale 1 / sqrt(d).                            b h s d, b h t d, b h t e -> b h s e  [s t d]
DTensor causal_attention(const DTensor& query, const DTensor& key, const DTensor& value);
// Pairs (i, i + d / 2) are turned; cosine and sine have d columns.  b s h d, s d, s d -> b s h d  [d], linear in x
DTensor rotate(const DTensor& x, const DTensor& cosine, const DTensor& sine);
// Rows of `weight`; ids are int64.                                ..., v d -> ... d; a cut of v makes a partial sum
DTensor embedding(const DTensor& ids, const DTensor& weight, const mesh::DeviceMesh& device_mesh);

// ---- element by element (pointwise.cpp): ... -> ..., ... , ... -> ... with broadcasting ----
DTensor add(const DTensor& a, const DTensor& b);  // linear together
DTensor sub(const DTensor& a, const DTensor& b);  // linear together
DTensor mul(const DTensor& a, const DTensor& b);  // linear in each
DTensor div(const DTensor& a, const DTensor& b);  // linear in a
DTensor maximum(const DTensor& a, const DTensor& b);
DTensor neg(const DTensor& x);                   // linear
DTensor scale(const DTensor& x, double factor);  // linear
DTensor shift(const DTensor& x, double number);  // x + number
DTensor power(const DTensor& x, double exponent);
DTensor square(const DTensor& x);
DTensor exp(const DTensor& x);
DTensor log(const DTensor& x);
DTensor sqrt(const DTensor& x);
DTensor rsqrt(const DTensor& x);
DTensor abs(const DTensor& x);
DTensor tanh(const DTensor& x);
DTensor sigmoid(const DTensor& x);
DTensor relu(const DTensor& x);
DTensor silu(const DTensor& x);
DTensor gelu(const DTensor& x);                          // with erf
DTensor swiglu(const DTensor& gate, const DTensor& up);  // silu(gate) * up, linear in up
DTensor clamp(const DTensor& x, double least, double most);
// `condition` is uint8.                                    linear together in a and b
DTensor where(const DTensor& condition, const DTensor& a, const DTensor& b);
DTensor masked_fill(const DTensor& x, const DTensor& mask, double number);  // mask is uint8
DTensor cast(const DTensor& x, mesh::ElementType type);
DTensor detach(const DTensor& x);  // linear
DTensor clone(const DTensor& x);   // linear

// ---- over a dim, which is dropped (reductions.cpp): the other dims are free ----
DTensor sum(const DTensor& x, int64_t dim);                                 // linear; over a cut dim a partial sum
DTensor sum(const DTensor& x);                                              // linear; of all elements
DTensor mean(const DTensor& x, int64_t dim);                                // linear; over a cut dim a partial sum
DTensor mean(const DTensor& x);                                             // linear; of all elements
DTensor square_sum(const DTensor& x);                                       // of all elements
DTensor amax(const DTensor& x, int64_t dim);                                // [dim]
DTensor softmax(const DTensor& x, int64_t dim);                             // keeps the dim; [dim]
DTensor log_softmax(const DTensor& x, int64_t dim);                         // keeps the dim; [dim]
DTensor cumulative_sum(const DTensor& x, int64_t dim);                      // linear; keeps the dim; [dim]
DTensor rms_norm(const DTensor& x, const DTensor& weight, double epsilon);  // ... h, h -> ... h  [h]
DTensor layer_norm(const DTensor& x, const DTensor& weight, const DTensor& bias, double epsilon);  // ... h, h, h  [h]
// The 2-norm of all elements of all tensors, none of which is partial: one reduction over the mesh.
double total_norm(std::span<const DTensor> tensors, const comm::Groups& groups);

// ---- dims (views.cpp): linear; a cut travels with its dim ----
DTensor transpose(const DTensor& x, int64_t one, int64_t other);
DTensor permute(const DTensor& x, const std::vector<int64_t>& dims);  // of at most 8 dims
DTensor unsqueeze(const DTensor& x, int64_t dim);
DTensor squeeze(const DTensor& x, int64_t dim);  // a dim of size 1
// Dim of size outer * inner <-> two dims. A cut must fall between whole inner ones, and becomes one of the outer dim.
DTensor unflatten(const DTensor& x, int64_t dim, int64_t inner);
DTensor flatten(const DTensor& x, int64_t dim);                               // dims dim and dim + 1
DTensor narrow(const DTensor& x, int64_t dim, int64_t first, int64_t count);  // [dim]
DTensor cat(const DTensor& a, const DTensor& b, int64_t dim);                 // linear together; [dim]
std::vector<DTensor> split(const DTensor& x, int64_t dim, int64_t parts);     // equal parts; [dim]
DTensor index_select(const DTensor& x, int64_t dim, const DTensor& index);    // [dim]; linear in x

// ---- the vocabulary's loss (cross_entropy.cpp) ----
// Of logits [n, v] and targets [n] (int64): -log softmax(logits)[target], [n].  n v, n -> n
// Where v is cut, three small reductions over its axes, on which the loss is invariant.
DTensor cross_entropy(const DTensor& logits, const DTensor& targets, const comm::Groups& groups);

}  // namespace weft::tensor
