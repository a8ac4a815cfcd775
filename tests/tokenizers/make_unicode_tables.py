"""Writes src/data/unicode_tables.cpp: python3 tests/tokenizers/make_unicode_tables.py > src/data/unicode_tables.cpp

Needs the packages unicodedata2==16.0.0 and tokenizers==0.23.3. The categories are those of Unicode 16.0, which the regular
expressions of `tokenizers` use. Two tables say where `tokenizers` lags behind: its punctuation and its normalization
forms were made from older versions of Unicode, so the tables are measured, one code point at a time.
"""

import sys
import unicodedata

import unicodedata2
from tokenizers import normalizers, pre_tokenizers

assert unicodedata2.unidata_version == "16.0.0"
CATEGORIES = "Cc Cf Cn Co Cs Ll Lm Lo Lt Lu Mc Me Mn Nd Nl No Pc Pd Pe Pf Pi Po Ps Sc Sk Sm So Zl Zp Zs".split()
CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]


def category(code_point):
    return "Cs" if 0xD800 <= code_point <= 0xDFFF else unicodedata2.category(chr(code_point))


def ranges(code_points):
    found = []
    for code_point in sorted(code_points):
        if found and found[-1][1] == code_point - 1:
            found[-1][1] = code_point
        else:
            found.append([code_point, code_point])
    return found


def wrapped(items):
    lines, line = [], "   "
    for item in items:
        if len(line) + len(item) + 2 > 118:
            lines.append(line)
            line = "   "
        line += " " + item + ","
    return "\n".join(lines + [line])


def print_ranges(name, comment, code_points):
    found = ranges(code_points)
    print(f"\n// {comment}")
    print(f"const CodePointRange {name}[] = {{")
    print(wrapped([f"{{0x{a:X}, 0x{b:X}}}" for a, b in found]))
    print("};")
    print(f"const std::size_t {name}Count = std::size({name});")


def unknown_to_normalization():
    forms = {
        "NFD": normalizers.NFD(), "NFKD": normalizers.NFKD(),
        "NFC": normalizers.NFC(), "NFKC": normalizers.NFKC(),
    }
    unknown = set()
    for code_point in CODE_POINTS:
        text = chr(code_point)
        for form, normalizer in forms.items():
            if normalizer.normalize_str(text) != unicodedata2.normalize(form, text):
                unknown.add(code_point)
        # A mark of an unknown class is not reordered behind U+0345, whose class is the largest.
        if unicodedata2.combining(text) not in (0, 240):
            if forms["NFD"].normalize_str("a\u0345" + text) == "a\u0345" + text:
                unknown.add(code_point)
    return unknown


def unknown_to_punctuation():
    splitter = pre_tokenizers.Punctuation()
    differs = set()
    for code_point in CODE_POINTS:
        splits = len(splitter.pre_tokenize_str("a" + chr(code_point) + "a")) == 3
        kind = category(code_point)
        expected = kind[0] == "P" or (code_point < 128 and kind[0] == "S")
        if splits != expected:
            differs.add(code_point)
    return differs


def main():
    runs = []
    for code_point in range(0x110000):
        kind = CATEGORIES.index(category(code_point))
        if runs and runs[-1][1] == kind:
            runs[-1][0] += 1
        else:
            runs.append([1, kind])
    print("// Made by tests/tokenizers/make_unicode_tables.py from the Unicode Character Database 16.0; not edited by hand.")
    print('#include "data/unicode_tables.h"\n\n#include <iterator>\n\nnamespace weft::data::tables {\n')
    print("// clang-format off")
    print("// Runs of equal general category from code point 0 on: length * 32 + category.")
    print("const std::uint32_t kCategoryRuns[] = {")
    print(wrapped([str(length * 32 + kind) for length, kind in runs]))
    print("};")
    print("const std::size_t kCategoryRunsCount = std::size(kCategoryRuns);")
    print_ranges("kNewerThanUnicode14", "Code points whose category changed between Unicode 14.0 and 16.0.",
                 [c for c in CODE_POINTS if unicodedata.category(chr(c)) != category(c)])
    print_ranges("kPunctuationExceptions", "Code points where the Punctuation pre-tokenizer disagrees with Unicode 16.0.",
                 unknown_to_punctuation())
    print_ranges("kNormalizationUnknown", "Code points that the normalization forms leave alone: they came after Unicode 9.0.",
                 unknown_to_normalization())
    print("// clang-format on\n\n}  // namespace weft::data::tables")


if unicodedata.unidata_version != "14.0.0":
    sys.exit("Python 3.11 is needed: its unicodedata is Unicode 14.0, the version of PCRE2 10.42")
main()
