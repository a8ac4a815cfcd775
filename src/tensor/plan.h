// How a model's tensors lie on a mesh, told by patterns on their paths, so that the model's code names no axis:
//
//   const Plan plan({{"*",             Moment::kKept, "fsdp: shard(0)"},
//                    {"*.up.weight",   Moment::kKept, "tp: shard(0) in 8"},
//                    {"*",             Moment::kUsed, "fsdp: replicate"},
//                    {"*.mlp.out",     Moment::kValue, "tp: shard(1)"}}, groups);
//
// "*" stands for any text. Of several lines that match and name an axis the last one counts. docs/sharded-tensors.md.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/dtensor.h"

namespace weft::tensor {

enum class Moment : uint8_t {
  kKept,   // a parameter between steps, and its gradient and optimizer state: invariant on axes that no line names
  kUsed,   // the parameter where an operator reads it: as it is kept on axes that no line names
  kValue,  // a value at a point that the model names: as it comes on axes that no line names
};

struct PlanLine {
  std::string paths;
  Moment moment = Moment::kKept;
  // "tp: shard(0) in 8, fsdp: replicate": placements as mesh::text() writes them, and the units of a dim that is cut
  std::string placements;
};

class Plan {
 public:
  // Throws InputError that names the line for an axis that the mesh lacks and for a text that is no placement. `groups`
  // must outlive the plan and the backwards of what it placed.
  Plan(const std::vector<PlanLine>& lines, const comm::Groups& groups);

  // Where a parameter is kept. Of axes that cut one dim those that still do so in use are the outermost, so that the
  // others can be gathered alone.
  [[nodiscard]] const mesh::Spec* kept(std::string_view path, std::vector<int64_t> shape,
                                       mesh::ElementType type = mesh::ElementType::kFloat32) const;
  // The parameter as it is read; its gradient goes back to where it is kept.
  [[nodiscard]] DTensor use(std::string_view path, const DTensor& parameter) const;
  // The value as the plan wants it there.
  [[nodiscard]] DTensor place(std::string_view path, const DTensor& value) const;

  // "" or the lines that matched nothing so far: patterns with a mistake.
  [[nodiscard]] std::string unmatched() const;
  [[nodiscard]] const comm::Groups& groups() const { return groups_; }

 private:
  struct Choice {
    mesh::Placement placement;
    int64_t units = 0;
  };
  struct Line {
    PlanLine text;
    std::map<size_t, Choice> choices;  // by axis
    mutable bool matched = false;
  };
  // Of the lines of a moment, by axis.
  [[nodiscard]] std::map<size_t, Choice> choices(std::string_view path, Moment moment) const;
  [[nodiscard]] std::map<size_t, Choice> parsed(const PlanLine& line) const;
  [[nodiscard]] DTensor moved(std::string_view path, const DTensor& tensor, Moment moment) const;

  const comm::Groups& groups_;
  std::vector<Line> lines_;
};

// Whether `path` matches a pattern, in which "*" stands for any text.
[[nodiscard]] bool matches(std::string_view pattern, std::string_view path);

}  // namespace weft::tensor
