// weft's side of bench/tokenize: tokenize_speed TOKENIZER FILE whole|paragraph|line ROUNDS prints a line of JSON: the
// bytes and tokens of one round and the CPU seconds of each.
#include <cstdio>
#include <string>
#include <string_view>
#include <time.h>
#include <vector>

#include <fmt/format.h>

#include "base/file.h"
#include "data/tokenizer.h"

namespace {

std::vector<std::string_view> parts_of(std::string_view text, std::string_view unit) {
  if (unit == "whole") {
    return {text};
  }
  const std::string_view separator = unit == "line" ? "\n" : "\n\n";
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = text.find(separator);
    const std::size_t length = end == text.npos ? text.size() : end + separator.size();
    parts.push_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return parts;
}

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fputs("usage: tokenize_speed TOKENIZER FILE whole|paragraph|line ROUNDS\n", stderr);
    return 2;
  }
  const auto tokenizer = weft::data::load_tokenizer(argv[1]);
  const std::string text = weft::read_file(argv[2]);
  const std::vector<std::string_view> parts = parts_of(text, argv[3]);
  std::vector<double> seconds;
  std::vector<weft::data::TokenId> ids;
  for (int round = 0; round < std::stoi(argv[4]); ++round) {
    ids.clear();
    const double start = cpu_seconds();
    for (const std::string_view part : parts) {
      tokenizer->encode(part, weft::data::SpecialTokens::Match, ids);
    }
    seconds.push_back(cpu_seconds() - start);
  }
  fmt::print("{{\"bytes\": {}, \"tokens\": {}, \"seconds\": [{:.6f}]}}\n", text.size(), ids.size(),
             fmt::join(seconds, ", "));
  return 0;
}
