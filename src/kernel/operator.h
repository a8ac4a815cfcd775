// An operator is an ordered list of implementations: the first that supports a call runs it. The last is the plain
// reference, made of ATen operators, which supports every call on every device and which the others are tested against.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace weft::kernel {

template <typename Signature>
class Operator;

template <typename Result, typename... Arguments>
class Operator<Result(Arguments...)> {
 public:
  struct Implementation {
    std::string_view name;
    // Why this call is not supported; empty if it is. A null function supports every call.
    std::string_view (*reason_against)(Arguments... arguments);
    Result (*run)(Arguments... arguments);

    [[nodiscard]] bool supports(Arguments... arguments) const {
      return reason_against == nullptr || reason_against(arguments...).empty();
    }
  };

  template <size_t count>
  constexpr Operator(std::string_view name, const Implementation (&implementations)[count])
      : name_(name), implementations_(implementations, count) {}

  Result operator()(Arguments... arguments) const {
    const Implementation* chosen = implementations_.data();
    while (!chosen->supports(arguments...)) ++chosen;
    return chosen->run(arguments...);
  }

  [[nodiscard]] std::string_view name() const { return name_; }
  [[nodiscard]] std::span<const Implementation> implementations() const { return implementations_; }

 private:
  std::string_view name_;
  std::span<const Implementation> implementations_;
};

}  // namespace weft::kernel
