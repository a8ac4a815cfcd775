#include "schedule/text_form.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "schedule/computations.h"

namespace weft::schedule {
namespace {

// A word between the number of the stage and that of the micro-batch, or alone.
struct Word {
  std::string_view text;
  Op op;
  Direction direction = Direction::kForward;
  Part part = Part::kWhole;
  Purpose purpose = Purpose::kNone;
};

constexpr std::array kWords = {
    Word{"F", Op::kForward},
    Word{"B", Op::kBackward},
    Word{"I", Op::kBackwardInput},
    Word{"W", Op::kBackwardWeight},
    Word{"RECOMPUTE", Op::kRecompute},
    Word{"SEND_F", Op::kSend},
    Word{"RECV_F", Op::kReceive},
    Word{"SEND_B", Op::kSend, Direction::kBackward},
    Word{"RECV_B", Op::kReceive, Direction::kBackward},
    Word{"WAIT_SEND_F", Op::kSend, Direction::kForward, Part::kWait},
    Word{"WAIT_SEND_B", Op::kSend, Direction::kBackward, Part::kWait},
    Word{"UNSHARD", Op::kUnshard},
    Word{"RESHARD", Op::kReshard},
    Word{"REDUCE_GRAD", Op::kReduceGradient},
    Word{"REDUCE_LOSS", Op::kReduce, Direction::kForward, Part::kWhole, Purpose::kLoss},
    Word{"REDUCE_NORM", Op::kReduce, Direction::kForward, Part::kWhole, Purpose::kNorm},
    Word{"STEP", Op::kStep},
};
constexpr std::string_view kPair = "OVERLAP_F_B";
// A whole reduction is its begin and its wait. torch writes both as actions; weft writes the wait behind the begin, and
// reads it as nothing.
constexpr std::string_view kWaitReduction = "WAIT_REDUCE_GRAD";

bool of_micro_batch(Op op) { return is_computation(op) || op == Op::kSend || op == Op::kReceive; }
bool of_stage(Op op) { return op != Op::kReduce && op != Op::kStep; }

Stream stream_of(const Word& word) {
  if (word.op == Op::kSend || word.op == Op::kReceive) {
    return word.direction == Direction::kForward ? Stream::kPipelineForward : Stream::kPipelineBackward;
  }
  const bool data = word.op == Op::kUnshard || word.op == Op::kReshard || word.op == Op::kReduceGradient;
  return data ? Stream::kData : Stream::kCompute;
}

void append(const Action& action, std::string& result) {
  const auto word = std::ranges::find_if(kWords, [&](const Word& candidate) {
    return candidate.op == action.op && candidate.direction == action.direction && candidate.part == action.part &&
           candidate.purpose == action.purpose;
  });
  WEFT_CHECK(word != kWords.end() && action.segment == -1 && action.value == -1 && action.bucket == -1);
  if (of_stage(action.op)) fmt::format_to(std::back_inserter(result), "{}", action.stage);
  result += word->text;
  if (of_micro_batch(action.op)) fmt::format_to(std::back_inserter(result), "{}", action.micro_batch);
  if (action.op == Op::kReduceGradient)
    fmt::format_to(std::back_inserter(result), ",{}{}", action.stage, kWaitReduction);
  if (action.slice != -1) fmt::format_to(std::back_inserter(result), "{{slice={}}}", action.slice);
}

// Reads one text. Rows and columns count from 1; a column is a cell, as a spreadsheet counts.
class Reader {
 public:
  Reader(std::string_view text, std::string_view name) : text_(text), name_(name) {
    const auto separates = [](char letter) { return letter == ',' || letter == ';' || letter == '\n'; };
    most_ = static_cast<int32_t>(std::min<int64_t>(1 + std::ranges::count_if(text, separates), 1 << 30));
  }

  Schedule read() {
    while (!text_.empty()) {
      const size_t end = text_.find('\n');
      std::string_view row = text_.substr(0, end);
      text_.remove_prefix(end == std::string_view::npos ? text_.size() : end + 1);
      if (row.ends_with('\r')) row.remove_suffix(1);
      read_row(row);
    }
    finish();
    return std::move(schedule_);
  }

 private:
  template <typename... Arguments>
  [[noreturn]] void refuse(fmt::format_string<Arguments...> format, Arguments&&... arguments) const {
    throw InputError(fmt::format("{}: row {}, column {}: {}", name_, row_, column_,
                                 fmt::format(format, std::forward<Arguments>(arguments)...)));
  }

  static std::string_view trimmed(std::string_view text) {
    const size_t first = text.find_first_not_of(" \t");
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(" \t") - first + 1);
  }

  void read_row(std::string_view row) {
    ++row_;
    column_ = 0;
    actions_ = &schedule_.roles.emplace_back().actions;
    columns_.emplace_back();
    for (bool more = true; more;) {
      ++column_;
      const size_t comma = row.find(',');
      more = comma != std::string_view::npos;
      std::string_view cell = trimmed(row.substr(0, comma));
      if (more) row.remove_prefix(comma + 1);
      if (cell.size() >= 2 && cell.front() == '"' && cell.back() == '"')
        cell = trimmed(cell.substr(1, cell.size() - 2));
      if (!cell.empty()) read_cell(cell);
    }
  }

  void read_cell(std::string_view cell) {
    if (cell.front() != '(') {
      if (!is_wait_for_reduction(cell)) actions_->push_back(read_action(cell));
      return;
    }
    const size_t middle = cell.find(';'), end = cell.find(')');
    if (middle == std::string_view::npos || end == std::string_view::npos || middle > end ||
        trimmed(cell.substr(end + 1)) != kPair) {
      refuse("\"{}\" is no pair, expected as in (0F3;3B1)OVERLAP_F_B", shown(cell));
    }
    Action forward = read_action(trimmed(cell.substr(1, middle - 1)));
    const Action backward = read_action(trimmed(cell.substr(middle + 1, end - middle - 1)));
    if (forward.op != Op::kForward || !makes_gradient(backward.op)) {
      refuse("\"{}\": a pair is a forward and a backward, as in (0F3;3B1)OVERLAP_F_B", shown(cell));
    }
    forward.paired = true;
    actions_->push_back(forward);
    actions_->push_back(backward);
  }

  [[nodiscard]] bool is_wait_for_reduction(std::string_view cell) const {
    std::string_view rest = cell;
    const std::optional<int32_t> stage = read_number(rest, cell);
    if (!stage || rest != kWaitReduction) return false;
    const size_t index = static_cast<size_t>(*stage);
    if (index >= reduced_in_row_.size() || reduced_in_row_[index] != row_) {
      refuse("\"{}\" waits for no reduction in front of it", shown(cell));
    }
    return true;
  }

  Action read_action(std::string_view cell) {
    std::string_view rest = cell;
    const std::optional<int32_t> stage = read_number(rest, cell);
    const size_t letters = std::min(rest.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_"), rest.size());
    const std::string_view text = rest.substr(0, letters);
    rest.remove_prefix(letters);
    const auto word = std::ranges::find(kWords, text, &Word::text);
    if (word == kWords.end()) refuse("\"{}\" is no action, expected as in 2F0, 1SEND_F3 or 4UNSHARD", shown(cell));
    const std::optional<int32_t> micro_batch = read_number(rest, cell);
    if (stage.has_value() != of_stage(word->op)) {
      refuse("\"{}\": {} {} stage in front of it", shown(cell), text, of_stage(word->op) ? "needs its" : "has no");
    }
    if (micro_batch.has_value() != of_micro_batch(word->op)) {
      refuse("\"{}\": {} {} micro-batch behind it", shown(cell), text,
             of_micro_batch(word->op) ? "needs its" : "has no");
    }
    Action action;
    action.op = word->op;
    action.direction = word->direction;
    action.part = word->part;
    action.purpose = word->purpose;
    action.stream = stream_of(*word);
    action.stage = stage.value_or(-1);
    action.micro_batch = micro_batch.value_or(-1);
    if (!rest.empty()) read_attributes(rest, cell, action);
    note(action);
    return action;
  }

  void read_attributes(std::string_view rest, std::string_view cell, Action& action) {
    constexpr std::string_view key = "{slice=";
    if (rest.starts_with(key)) {
      rest.remove_prefix(key.size());
      const std::optional<int32_t> slice = read_number(rest, cell);
      if (slice && rest == "}" && of_micro_batch(action.op)) {
        action.slice = *slice;
        return;
      }
    }
    refuse("\"{}\" goes on where an action ends; {{slice=0}} alone may follow", shown(cell));
  }

  // A number at the front of `rest`, if there is one.
  std::optional<int32_t> read_number(std::string_view& rest, std::string_view cell) const {
    const size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
    if (digits == 0) return std::nullopt;
    int32_t number = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + digits, number);
    if (error != std::errc{} || number >= most_) {
      refuse("\"{}\" has a number too high for a text of {} actions", shown(cell), most_);
    }
    rest.remove_prefix(digits);
    return number;
  }

  void note(const Action& action) {
    columns_.back().push_back(column_);
    ++count_;
    if (of_micro_batch(action.op)) schedule_.micro_batches = std::max(schedule_.micro_batches, action.micro_batch + 1);
    if (action.stage < 0) return;
    const size_t stage = static_cast<size_t>(action.stage);
    if (stage >= schedule_.stages.size()) schedule_.stages.resize(stage + 1, {.role = kNobody});
    if (action.op == Op::kReduceGradient) {
      reduced_in_row_.resize(schedule_.stages.size());
      reduced_in_row_[stage] = row_;
    }
    if (!is_computation(action.op)) return;
    int32_t& owner = schedule_.stages[stage].role;
    const int32_t role = static_cast<int32_t>(schedule_.roles.size()) - 1;
    if (owner == kNobody) owner = role;
    if (owner != role) refuse("stage {} is computed in row {} already", stage, owner + 1);
  }

  void finish() {
    while (!schedule_.roles.empty() && schedule_.roles.back().actions.empty()) schedule_.roles.pop_back();
    if (count_ == 0) throw InputError(fmt::format("{}: no action", name_));
    const size_t stages = schedule_.stages.size(), micro_batches = static_cast<size_t>(schedule_.micro_batches);
    if (stages * micro_batches > 2 * count_) {
      throw InputError(
          fmt::format("{}: {} stages and {} micro-batches in only {} actions", name_, stages, micro_batches, count_));
    }
    std::vector<char> trained(stages);
    bool any_backward = false;
    for (const RoleSchedule& role : schedule_.roles) {
      for (const Action& action : role.actions) {
        if (makes_gradient(action.op)) any_backward = true;
        if (adds_weight_gradient(action.op)) trained[static_cast<size_t>(action.stage)] = 1;
      }
    }
    for (size_t stage = 0; stage < stages; ++stage) {
      if (schedule_.stages[stage].role == kNobody) {
        throw InputError(fmt::format("{}: no row computes stage {} of {}", name_, stage, stages));
      }
      schedule_.stages[stage].trains = !any_backward || trained[stage] != 0;
    }
    find_peers();
  }

  void find_peers() {
    for (size_t role = 0; role < schedule_.roles.size(); ++role) {
      for (size_t index = 0; index < schedule_.roles[role].actions.size(); ++index) {
        Action& action = schedule_.roles[role].actions[index];
        if (action.op != Op::kSend && action.op != Op::kReceive) continue;
        const bool up = (action.op == Op::kSend) == (action.direction == Direction::kForward);
        const int64_t other = int64_t{action.stage} + (up ? 1 : -1);
        row_ = role + 1;
        column_ = columns_[role][index];
        if (other < 0 || other >= static_cast<int64_t>(schedule_.stages.size())) {
          refuse("{} {} stage {}, which is the {}", text(action), action.op == Op::kSend ? "from" : "at", action.stage,
                 up ? "last" : "first");
        }
        action.peer = schedule_.stages[static_cast<size_t>(other)].role;
      }
    }
  }

  static std::string_view shown(std::string_view cell) { return cell.substr(0, 60); }

  static constexpr int32_t kNobody = -1;

  std::string_view text_, name_;
  int32_t most_ = 0;  // numbers are below it: each stage and micro-batch has an action of its own
  size_t row_ = 0, column_ = 0;
  std::vector<Action>* actions_ = nullptr;
  std::vector<std::vector<size_t>> columns_;  // by role and action
  std::vector<size_t> reduced_in_row_;        // by stage: the last row that reduces its gradients
  size_t count_ = 0;
  Schedule schedule_;
};

}  // namespace

std::string csv(const Schedule& schedule) {
  std::string result;
  for (const RoleSchedule& role : schedule.roles) {
    for (size_t first = 0; first < role.actions.size();) {
      if (first > 0) result += ',';
      if (unit_length(role.actions, first) == 2) {
        result += '(';
        append(role.actions[first++], result);
        result += ';';
        append(role.actions[first++], result);
        result += ')';
        result += kPair;
      } else {
        append(role.actions[first++], result);
      }
    }
    result += '\n';
  }
  return result;
}

Schedule read_csv(std::string_view text, std::string_view name) { return Reader(text, name).read(); }

Schedule read_csv_file(const std::filesystem::path& path) { return read_csv(read_file(path), path.string()); }

uint64_t hash(const Schedule& schedule) {
  StreamingHash hash;
  const auto add = [&hash](auto... numbers) { (hash.update_number(numbers), ...); };
  add(schedule.micro_batches, static_cast<uint64_t>(schedule.stages.size()));
  for (const Stage& stage : schedule.stages) {
    add(stage.first_segment, stage.segment_count, stage.role, static_cast<uint8_t>(stage.trains));
  }
  std::vector<int32_t> fields;
  for (const RoleSchedule& role : schedule.roles) {
    fields.clear();
    fields.reserve(role.actions.size() * 8);
    for (const Action& action : role.actions) {
      const int32_t kinds = static_cast<int32_t>(action.op) | static_cast<int32_t>(action.part) << 8 |
                            static_cast<int32_t>(action.purpose) << 12 | static_cast<int32_t>(action.stream) << 16 |
                            static_cast<int32_t>(action.direction) << 20 | static_cast<int32_t>(action.paired) << 24;
      fields.insert(fields.end(), {kinds, action.stage, action.segment, action.micro_batch, action.slice, action.peer,
                                   action.value, action.bucket});
    }
    add(static_cast<uint64_t>(role.actions.size()));
    hash.update(std::as_bytes(std::span(fields)));
  }
  return hash.digest();
}

}  // namespace weft::schedule
