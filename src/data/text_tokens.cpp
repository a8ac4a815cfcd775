#include "data/text_tokens.h"

#include <algorithm>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/machine.h"
#include "base/progress.h"
#include "base/utf8.h"
#include "data/ordered_workers.h"
#include "data/source_files.h"

namespace weft::data {

namespace {

namespace fs = std::filesystem;

constexpr size_t kUnitBytes = size_t{1} << 20;

// A text file or a part of it that ends with an end-of-text token, or some lines of a file of JSON lines.
struct Unit {
  std::shared_ptr<const MappedFile> file;
  FileKind kind;
  std::string_view text;
  size_t first_line = 1;
};

// Cuts files into units, one file open at a time (units keep theirs alive).
class Cutter {
 public:
  // `separator` is where a text file may be cut: behind each occurrence. Empty: nowhere.
  Cutter(const std::vector<fs::path>& files, std::string separator) : files_(files), separator_(std::move(separator)) {}

  std::optional<Unit> next() {
    while (rest_.empty()) {
      if (next_file_ == files_.size()) return std::nullopt;
      const fs::path& path = files_[next_file_++];
      unit_.kind = file_kind(path);
      unit_.file = std::make_shared<MappedFile>(path);
      unit_.file->advise_sequential();
      unit_.first_line = 1;
      lines_ = 0;
      rest_ = without_mark(unit_.file->text());
    }
    const std::string_view border = unit_.kind == FileKind::kJsonLines ? std::string_view("\n") : separator_;
    size_t size = rest_.size();
    if (!border.empty() && size > kUnitBytes) {
      const size_t end = rest_.find(border, kUnitBytes);
      if (end != std::string_view::npos) size = end + border.size();
    }
    unit_.text = rest_.substr(0, size);
    rest_.remove_prefix(size);
    unit_.first_line += lines_;
    lines_ = static_cast<size_t>(std::count(unit_.text.begin(), unit_.text.end(), '\n'));
    return unit_;
  }

 private:
  [[nodiscard]] std::string_view without_mark(std::string_view text) const {
    if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) {
      throw InputError(fmt::format("{} looks like UTF-16; save it as UTF-8", unit_.file->path().string()));
    }
    if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
    return text;
  }

  const std::vector<fs::path>& files_;
  std::string separator_;
  size_t next_file_ = 0, lines_ = 0;
  std::string_view rest_;
  Unit unit_{};
};

void check_utf8(const Unit& unit) {
  const auto place = first_invalid_utf8(unit.text);
  if (!place) return;
  throw InputError(fmt::format(
      "{}: line {}: not UTF-8 (byte 0x{:02X}); convert the text, for instance with iconv, or use the tokenizer "
      "\"bytes\"",
      unit.file->path().string(), unit.first_line - 1 + text_position(unit.text, *place).line,
      static_cast<unsigned char>(unit.text[*place])));
}

// Calls visit(text, where) for each document of the unit.
template <class Visit>
void visit_unit(const Unit& unit, bool utf8, Visit visit) {
  if (unit.kind == FileKind::kText) {
    if (utf8) check_utf8(unit);
    visit(unit.text, unit.file->path().string());
    return;
  }
  size_t line = unit.first_line;
  for (std::string_view rest = unit.text; !rest.empty(); ++line) {
    const std::string_view json = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), json.size() + 1));
    if (json.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string where = fmt::format("{}:{}", unit.file->path().string(), line);
    const Json value = parse_json(json, where);
    const JsonReader reader(value, where);
    if (!reader.is_object()) reader.fail("expected an object with a key \"text\"");
    visit(std::string_view(reader.at("text").as_string()), where);
  }
}

struct Tokens {
  std::vector<TokenId> ids;
  std::vector<size_t> lengths;  // of the documents
  size_t bytes = 0;             // of the unit
};

// The end-of-text token as text, if tokenizing may stop behind it and start anew without changing an id (a tokenizer
// may join the space that follows to the token, or begin each text with a mark); else empty.
std::string end_of_text_separator(const Tokenizer& tokenizer) {
  const auto end = tokenizer.eos_id();
  if (!end) return "";
  const std::string separator = tokenizer.decode(std::vector<TokenId>{*end});
  if (separator.empty()) return "";
  for (const char* next : {"a b", " a", "\n\na", "  \n"}) {
    std::vector<TokenId> apart = tokenizer.encode("a " + separator);
    if (apart.empty() || apart.back() != *end) return "";
    const std::vector<TokenId> behind = tokenizer.encode(next);
    apart.insert(apart.end(), behind.begin(), behind.end());
    if (tokenizer.encode("a " + separator + next) != apart) return "";
  }
  return separator;
}

struct DocumentEncoder {
  const Tokenizer& tokenizer;
  bool bos = false;
  std::string separator;  // of documents within a text

  void encode(std::string_view text, const std::string& where, Tokens& tokens) const {
    while (!text.empty()) {
      const size_t end = separator.empty() ? std::string_view::npos : text.find(separator);
      const std::string_view document = text.substr(0, end == std::string_view::npos ? end : end + separator.size());
      text.remove_prefix(document.size());
      encode_one(document, where, tokens);
    }
  }

 private:
  void encode_one(std::string_view document, const std::string& where, Tokens& tokens) const {
    const size_t before = tokens.ids.size();
    if (bos) tokens.ids.push_back(*tokenizer.bos_id());
    try {
      tokenizer.encode(document, SpecialTokens::Match, tokens.ids);
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}: {}", where, error.what()));
    }
    const auto end = tokenizer.eos_id();
    if (end && (tokens.ids.size() == before || tokens.ids.back() != *end)) tokens.ids.push_back(*end);
    tokens.lengths.push_back(tokens.ids.size() - before);
  }
};

double total_bytes(const std::vector<fs::path>& files) {
  double bytes = 0;
  for (const fs::path& file : files) {
    std::error_code error;  // a file that cannot be read is reported when its turn comes
    const auto size = fs::file_size(file, error);
    if (!error) bytes += static_cast<double>(size);
  }
  return bytes;
}

}  // namespace

void visit_documents(const std::vector<fs::path>& files, bool utf8,
                     const std::function<void(std::string_view)>& visit) {
  Cutter cutter(files, "");
  while (const auto unit = cutter.next()) {
    visit_unit(*unit, utf8, [&](std::string_view text, const std::string&) { visit(text); });
  }
}

void tokenize_documents(const std::vector<fs::path>& files, const Tokenizer& tokenizer, const TextOptions& options,
                        const std::function<void(std::span<const TokenId>)>& consume) {
  if (options.bos && !tokenizer.bos_id()) {
    throw InputError("data.bos: the tokenizer has no token that begins a text");
  }
  const auto threads = static_cast<size_t>(options.threads > 0 ? options.threads : usable_cores());
  std::optional<Progress> progress;
  if (options.progress) progress.emplace("tokenizing", "bytes", total_bytes(files));

  const DocumentEncoder encoder{tokenizer, options.bos, end_of_text_separator(tokenizer)};
  Cutter cutter(files, encoder.separator);
  double done = 0;
  uint64_t count = 0;
  work_in_order<Unit, Tokens>(
      threads, [&] { return cutter.next(); },
      [&](const Unit& unit) {
        Tokens tokens;
        tokens.bytes = unit.text.size();
        visit_unit(unit, options.utf8,
                   [&](std::string_view text, const std::string& where) { encoder.encode(text, where, tokens); });
        return tokens;
      },
      [&](Tokens tokens) {
        std::span<const TokenId> rest(tokens.ids);
        for (const size_t length : tokens.lengths) {
          consume(rest.first(length));
          rest = rest.subspan(length);
        }
        count += tokens.ids.size();
        done += static_cast<double>(tokens.bytes);
        if (progress) progress->update(done, quantity_text(static_cast<double>(count)) + " tokens");
      });
  if (progress) progress->finish();
}

}  // namespace weft::data
